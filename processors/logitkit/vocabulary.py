"""A tokenizer as data: which bytes each token id adds to the text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, SupportsIndex

from logitkit.errors import VocabularyError
from logitkit.integers import as_integer

if TYPE_CHECKING:
    from logitkit.automata.trie import Trie

__all__ = ["Vocabulary"]


class Vocabulary:
    r"""The bytes of every token, and which ids end a sequence.

    Immutable, hashable by content, and the place where everything computed once per tokenizer is kept.

    Args:
        tokens: Bytes that each id adds to the text, by id. `None` for an id without text (special tokens, unused rows). Two
            ids may have equal bytes: each is a token of its own. Bytes need not be whole UTF-8 characters.
        eos_ids: Id or ids that end a sequence; their text, if any, is ignored. At least one is needed by every constraint.
        size: Number of logits columns, when the model pads its vocabulary: `size >= len(tokens)`. Default `len(tokens)`.
        pad_id: Id that an engine appends to finished rows; a finished row may emit it.

    Raises:
        VocabularyError: A token is neither bytes nor None or is empty bytes, a number is no integer or out of range, or nothing
            has text.

    Example:
        >>> vocabulary = Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
        >>> vocabulary.size, vocabulary.eos_ids, vocabulary.decode([2, 0, 3])
        (4, (3,), b'aba')
    """

    __slots__ = ("__dict__", "__weakref__", "eos_ids", "pad_id", "size", "tokens")

    tokens: tuple[bytes | None, ...]
    eos_ids: tuple[int, ...]
    size: int
    pad_id: int | None

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos_ids: Iterable[SupportsIndex] | SupportsIndex,
        size: SupportsIndex | None = None,
        pad_id: SupportsIndex | None = None,
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
        put(
            "tokens",
            (
                *(None if i in without_text else token for i, token in enumerate(tokens)),
                *(None for _ in range(columns - count)),
            ),
        )
        put("eos_ids", tuple(sorted(without_text)))
        put("size", columns)
        put("pad_id", pad)
        if not any(self.tokens):
            raise VocabularyError(
                "no token has text: every entry is None; give the bytes that each token adds to the text"
            )

    @cached_property
    def content_key(self) -> str:
        """SHA-256 of everything that the vocabulary says, as 64 hexadecimal digits; equal content, equal key."""
        digest = hashlib.sha256(repr((self.eos_ids, self.pad_id, self.size)).encode())
        # Lengths first, so that no two vocabularies share a byte stream.
        digest.update(",".join("-" if t is None else str(len(t)) for t in self.tokens).encode())
        digest.update(b"".join(t for t in self.tokens if t is not None))
        return digest.hexdigest()

    @cached_property
    def trie(self) -> Trie:
        """All prefixes of all tokens, by level: built once, on first use."""
        from logitkit.automata.trie import Trie

        return Trie.of(self.tokens)

    @cached_property
    def reversed_trie(self) -> Trie:
        """All ends of all tokens, by level: the trie of the tokens read backwards."""
        from logitkit.automata.trie import Trie

        return Trie.of([None if token is None else token[::-1] for token in self.tokens])

    @cached_property
    def spells_every_byte(self) -> bool:
        """Whether each of the 256 bytes is a token, so that any text can be tokenised."""
        return len({t for t in self.tokens if t is not None and len(t) == 1}) == 256

    def decode(self, ids: Iterable[int]) -> bytes:
        """Join the bytes of token ids; ids without text add nothing.

        Args:
            ids: Token ids from 0 to `size - 1`.

        Returns:
            The bytes of the text; not necessarily whole UTF-8 characters.
        """
        return b"".join(self.tokens[i] or b"" for i in ids)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(
            f"cannot set {name}: a Vocabulary never changes, as automata belong to it; make another one"
        )

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"cannot delete {name}: a Vocabulary never changes, as automata belong to it; make another one"
        )

    def __len__(self) -> int:
        return self.size

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Vocabulary) and self.content_key == other.content_key)

    def __hash__(self) -> int:
        return hash(self.content_key)

    def __repr__(self) -> str:
        text = sum(t is not None for t in self.tokens)
        return f"Vocabulary({text} tokens with text of {self.size}, eos_ids={list(self.eos_ids)}, pad_id={self.pad_id})"

    def __reduce__(self) -> tuple[type[Vocabulary], tuple[object, ...]]:
        return Vocabulary, (self.tokens, self.eos_ids, self.size, self.pad_id)


def _several(ids: object) -> list[object]:
    # A tensor without dimensions has __iter__, but is one id.
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
