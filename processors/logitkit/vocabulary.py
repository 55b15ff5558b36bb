"""A tokenizer as data: which bytes each token id adds to the text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from functools import cached_property
from operator import index
from typing import TYPE_CHECKING, SupportsIndex

from logitkit.errors import VocabularyError

if TYPE_CHECKING:
    from logitkit.automata.trie import Trie

__all__ = ["Vocabulary"]


class Vocabulary:
    r"""The bytes of every token, and which ids end a sequence.

    Immutable, hashable by content, and the place where everything computed once per tokenizer is kept.

    Args:
        tokens: Bytes that each id adds to the text, by id. `None` for an id without text (special tokens, unused rows). Two
            ids may have equal bytes: each is a token of its own. Bytes need not be whole UTF-8 characters.
        eos_ids: Ids that end a sequence; their text, if any, is ignored. At least one is needed by every constraint.
        size: Number of logits columns, when the model pads its vocabulary: `size >= len(tokens)`. Default `len(tokens)`.
        pad_id: Id that an engine appends to finished rows; a finished row may emit it.

    Raises:
        VocabularyError: A token is neither bytes nor None or is empty bytes, an id is out of range, or nothing has text.

    Example:
        >>> vocabulary = Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
        >>> vocabulary.size, vocabulary.eos_ids, vocabulary.decode([2, 0, 3])
        (4, (3,), b'aba')
    """

    __slots__ = ("__dict__", "__weakref__", "eos_ids", "pad_id", "size", "tokens")

    def __init__(
        self,
        tokens: Sequence[bytes | None],
        eos_ids: Iterable[SupportsIndex] | SupportsIndex,
        size: int | None = None,
        pad_id: SupportsIndex | None = None,
    ) -> None:
        # Not only int: tokenizers and configurations give numpy's integers too.
        ends = list(eos_ids) if isinstance(eos_ids, Iterable) else [eos_ids]
        count = len(tokens)
        size = count if size is None else size
        if size < count:
            raise VocabularyError(
                f"size={size} is less than the {count} tokens given; size is the number of logits columns and may "
                "only pad the vocabulary"
            )
        for name, ids in (("eos_ids", ends), ("pad_id", [] if pad_id is None else [pad_id])):
            for i in ids:
                if isinstance(i, bool) or not isinstance(i, SupportsIndex) or not 0 <= index(i) < size:
                    raise VocabularyError(f"{name} has {i!r}; allowed are token ids from 0 to {size - 1}")
        for i, token in enumerate(tokens):
            if token is not None and not isinstance(token, bytes):
                raise VocabularyError(
                    f"token {i} is {token!r} of type {type(token).__name__}; give its bytes, or None for an id without text"
                )
            if token == b"":
                raise VocabularyError(f"token {i} is empty bytes; give None for an id without text")
        without_text = {*map(index, ends)}
        self.tokens: tuple[bytes | None, ...] = (
            *(None if i in without_text else token for i, token in enumerate(tokens)),
            *(None for _ in range(size - count)),
        )
        self.eos_ids: tuple[int, ...] = tuple(sorted(without_text))
        self.size: int = size
        self.pad_id: int | None = None if pad_id is None else index(pad_id)
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
