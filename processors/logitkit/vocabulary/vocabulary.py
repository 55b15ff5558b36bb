"""A tokenizer as data: the bytes that each token id adds to the text."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import NoReturn, SupportsIndex
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from logitkit.errors import VocabularyError
from logitkit.parameters.scalars import as_integer
from logitkit.vocabulary.shapes import Shapes
from logitkit.vocabulary.special_tokens import SpecialNames
from logitkit.vocabulary.token_suffixes import ENDS_OF_BLOCKS, ENDS_OF_CALLS, TokenSuffixes
from logitkit.vocabulary.trie import JoinedTokens, Trie

__all__ = ["Vocabulary"]

IMMUTABLE = "a Vocabulary is immutable, because automata belong to it; build a new one"

NO_NAMES: Mapping[str, SupportsIndex] = MappingProxyType({})


class Vocabulary:
    r"""The bytes of every token, and which ids end a sequence.

    A vocabulary never changes, and is hashed by its content. It caches everything that is computed once per tokenizer.

    Args:
        tokens: The bytes that each id adds to the text, by id. `None` for an id without text (special tokens, unused ids). Two
            ids may have equal bytes. Bytes need not be whole UTF-8 characters.
        eos_ids: The id or ids that end a sequence; their text, if any, is ignored. Every constraint needs at least one.
        size: The number of logits columns, if the model pads its vocabulary: `size >= len(tokens)`. Default `len(tokens)`.
        pad_id: The id that an engine appends to finished rows; a finished row may emit it.
        special: The ids of special tokens by name, such as `{"</think>": 151668}`. A marker, stop or ban with one of these
            names means both the special token and the name spelled in ordinary tokens.

    Raises:
        VocabularyError: A token is neither bytes nor None, or is empty; a number is not an integer in range; no token has text;
            or the name of a special token is not text, is empty, shares its id with another name, or differs from the text of
            its token.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3], special={"</s>": 3})
        >>> vocabulary.size, vocabulary.eos_ids, vocabulary.decode([2, 0, 3]), vocabulary.special["</s>"]
        (4, (3,), b'aba', 3)
    """

    __slots__ = ("__dict__", "__weakref__", "eos_ids", "left_out", "pad_id", "size", "special", "tokens", "whole")

    tokens: tuple[bytes | None, ...]
    eos_ids: tuple[int, ...]
    size: int
    pad_id: int | None
    special: Mapping[str, int]
    # The vocabulary from which `without` made this one, and the ids that it left out.
    whole: Vocabulary | None
    left_out: frozenset[int]

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos_ids: Iterable[SupportsIndex] | SupportsIndex,
        size: SupportsIndex | None = None,
        pad_id: SupportsIndex | None = None,
        special: Mapping[str, SupportsIndex] = NO_NAMES,
    ) -> None:
        count = len(tokens)
        columns = count if size is None else as_integer(size)
        if columns is None:
            raise VocabularyError(f"size is {size!r}; give the number of logits columns, an integer from {count}")
        if columns < count:
            raise VocabularyError(
                f"size={columns} is less than the {count} tokens given; size is the number of logits columns and may "
                "only pad the vocabulary"
            )
        without_text = {_checked_id("eos_ids", end, columns) for end in _several(eos_ids)}
        pad = None if pad_id is None else _checked_id("pad_id", pad_id, columns)
        for i, token in enumerate(tokens):
            if token is not None and not isinstance(token, bytes):
                raise VocabularyError(
                    f"token {i} is {token!r} of type {type(token).__name__}; give its bytes, or None for an id without text"
                )
            if token == b"":
                raise VocabularyError(f"token {i} is empty bytes; give None for an id without text")
        put = super().__setattr__
        texts = [None if i in without_text else token for i, token in enumerate(tokens)]
        put("tokens", (*texts, *[None] * (columns - count)))
        put("eos_ids", tuple(sorted(without_text)))
        put("size", columns)
        put("pad_id", pad)
        put("special", MappingProxyType(_checked_names(special, self.tokens)))
        put("whole", None)
        put("left_out", frozenset())
        if not any(self.tokens):
            raise VocabularyError(
                "no token has text: every entry is None; give the bytes that each token adds to the text"
            )

    def without(self, ids: Iterable[SupportsIndex]) -> Vocabulary:
        """Return the vocabulary without some tokens: its constraints never use them, and no text needs one to be completed.

        Rows of these constraints share batches with those of the whole vocabulary. The ids that end a sequence are kept.

        Args:
            ids: The token ids to leave out.

        Raises:
            VocabularyError: An id is not one of the vocabulary, or no token with text is left.

        Example:
            >>> import logitkit as lk
            >>> vocabulary = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
            >>> regex = lk.Regex("(a|b|ab)b", vocabulary.without([1]))
            >>> regex.allowed_tokens(regex.init_state(lk.Context.of([[]], vocabulary_size=4)))
            tensor([[False, False,  True, False]])
        """
        given = {_checked_id("ids", i, self.size) for i in ids}
        left_out = given.difference(self.eos_ids)
        if left_out <= self.left_out:
            return self
        if self.whole is not None:
            return self.whole.without(left_out | self.left_out)
        found = self._parts.get(frozenset(left_out))
        return self._part(frozenset(left_out)) if found is None else found

    @cached_property
    def _parts(self) -> WeakValueDictionary[frozenset[int], Vocabulary]:
        """The vocabularies without some of its tokens that are in use."""
        return WeakValueDictionary()

    def _part(self, left_out: frozenset[int]) -> Vocabulary:
        made = Vocabulary.__new__(Vocabulary)
        put = super(Vocabulary, made).__setattr__
        tokens = list(self.tokens)
        for i in left_out:
            tokens[i] = None
        put("tokens", tuple(tokens))
        for name in ("eos_ids", "size", "pad_id"):
            put(name, getattr(self, name))
        put("special", MappingProxyType({name: i for name, i in self.special.items() if i not in left_out}))
        put("whole", self)
        put("left_out", left_out)
        if not any(tokens):
            raise VocabularyError("no token with text is left; leave out fewer tokens")
        return self._parts.setdefault(left_out, made)

    @cached_property
    def joined(self) -> JoinedTokens:
        """All tokens as one text; joined on first use."""
        return JoinedTokens.of(self.tokens)

    @cached_property
    def content_key(self) -> str:
        """SHA-256 of the content, as 64 hexadecimal digits: vocabularies with equal content have equal keys.

        That of a vocabulary without some tokens names the whole one.
        """
        if self.whole is not None:
            return hashlib.sha256(f"{self.whole.content_key} without {sorted(self.left_out)}".encode()).hexdigest()
        digest = hashlib.sha256(repr((self.eos_ids, self.pad_id, self.size)).encode())
        # Lengths first, so that different vocabularies never produce the same bytes.
        lengths = self.joined.length_of_id
        written = ["-", *map(str, range(1, int(lengths.max()) + 1))]
        digest.update(",".join(map(written.__getitem__, lengths.tolist())).encode())
        text = self.joined.text.tobytes()
        # The first byte of the text must not look like one more digit of the last length.
        digest.update(b";" + text if text[:1] in b"0123456789;" else text)
        if self.special:
            digest.update(repr(sorted(self.special.items())).encode())
        return digest.hexdigest()

    @cached_property
    def special_names(self) -> SpecialNames:
        """The names of the special tokens, indexed for searching texts."""
        return SpecialNames(self.special, self.tokens, self.eos_ids)

    @cached_property
    def trie(self) -> Trie:
        """All prefixes of all tokens; built on first use."""
        return Trie.of(self.joined)

    @property
    def without_text(self) -> NDArray[np.bool_]:
        """[V] bool, which ids have no text; those that were left out have none either, but no constraint may use them."""
        found: NDArray[np.bool_] = self.trie.node_of_id == 0
        found[[*self.left_out]] = False
        return found

    @cached_property
    def reversed_trie(self) -> Trie:
        """All suffixes of all tokens: the trie of the tokens read backwards; built on first use."""
        return Trie.of([None if token is None else token[::-1] for token in self.tokens])

    @cached_property
    def shapes(self) -> Shapes:
        """The tokens without what most patterns do not tell apart; built on first use."""
        return Shapes.of(self.tokens)

    @cached_property
    def token_suffixes(self) -> TokenSuffixes:
        """The suffixes of tokens after quotes and closing brackets; built on first use."""
        return TokenSuffixes.of(self.joined)

    @cached_property
    def token_suffixes_of_blocks(self) -> TokenSuffixes:
        """The same and those after commas, which end blocks of items; built on first use."""
        return TokenSuffixes.of(self.joined, ENDS_OF_BLOCKS, self.token_suffixes)

    @cached_property
    def token_suffixes_of_calls(self) -> TokenSuffixes:
        """The same and those after the bytes with which tool calls end; built on first use."""
        return TokenSuffixes.of(self.joined, ENDS_OF_CALLS, self.token_suffixes_of_blocks)

    @cached_property
    def spells_every_byte(self) -> bool:
        """Whether each of the 256 bytes is a token, so that any text can be tokenized."""
        return len({t for t in self.tokens if t is not None and len(t) == 1}) == 256

    def decode(self, ids: Iterable[int]) -> bytes:
        """Join the bytes of token ids; ids without text add nothing.

        Args:
            ids: Token ids from 0 to `size - 1`.

        Returns:
            The bytes of the text, which may end within a UTF-8 character.
        """
        return b"".join(self.tokens[i] or b"" for i in ids)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"cannot set {name}: {IMMUTABLE}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"cannot delete {name}: {IMMUTABLE}")

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vocabulary) and self.content_key == other.content_key)

    def __hash__(self) -> int:
        return hash(self.content_key)

    def __repr__(self) -> str:
        text = sum(t is not None for t in self.tokens)
        return f"Vocabulary({text} tokens with text of {self.size}, eos_ids={list(self.eos_ids)}, pad_id={self.pad_id})"

    def __reduce__(self) -> tuple[Callable[..., Vocabulary], tuple[object, ...]]:
        if self.whole is not None:
            return Vocabulary.without, (self.whole, self.left_out)
        return Vocabulary, (self.tokens, self.eos_ids, self.size, self.pad_id, dict(self.special))


def _several(ids: object) -> list[object]:
    # A tensor without dimensions has __iter__, but is a single id.
    if as_integer(ids) is not None or not isinstance(ids, Iterable):
        return [ids]
    try:
        return list(ids)
    except TypeError:
        return [ids]


def _checked_id(name: str, given: object, size: int) -> int:
    found = as_integer(given)
    if found is None or not 0 <= found < size:
        raise VocabularyError(f"{name} has {given!r}; allowed are token ids from 0 to {size - 1}")
    return found


def _checked_names(special: object, tokens: tuple[bytes | None, ...]) -> dict[str, int]:
    if not isinstance(special, Mapping):
        raise VocabularyError(
            f"special is of type {type(special).__name__}; give a mapping from the names of special tokens to their ids"
        )
    names: dict[str, int] = {}
    named: dict[int, str] = {}
    for name, given in special.items():
        if not isinstance(name, str) or not name:
            raise VocabularyError(f"special has the name {name!r}; allowed are names of at least one character")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise VocabularyError(f"special has the name {name!r}, which cannot be written in UTF-8") from None
        token = names[name] = _checked_id(f"special[{name!r}]", given, len(tokens))
        if named.setdefault(token, name) != name:
            raise VocabularyError(
                f"special has the id {token} twice, as {named[token]!r} and {name!r}; give one name for each id"
            )
        if tokens[token] not in (None, name.encode()):
            raise VocabularyError(
                f"special has the name {name!r} for id {token}, whose text is {tokens[token]!r}; the text of a special token is "
                "None or its name"
            )
    return names
