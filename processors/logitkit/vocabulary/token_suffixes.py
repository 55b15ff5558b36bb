"""The suffixes of tokens after a byte that ends something: of `"},` after its quote, `},`; after its brace, a comma.

Where a text ends inside a token, the rest of the token goes on with whatever comes next. Few different rests exist, whatever the
size of the vocabulary, so what each does is worked out once for all tokens that have it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.vocabulary.trie import JoinedTokens, Trie

__all__ = ["TokenSuffixes"]

# The bytes that end strings, objects and arrays; and with them the one that ends a block of items, and those that end tool calls.
ENDS = b'"}]'
ENDS_OF_BLOCKS = b'"}],'
ENDS_OF_CALLS = b'"}],)>'


@dataclass(frozen=True, eq=False)
class TokenSuffixes:
    """The suffixes of the tokens of a vocabulary, numbered from 1 on; 0 is the empty one.

    Args:
        texts: The suffixes; that at place `n` has number `n + 1`.
        trie: The same as a trie, with their places as ids.
        length: [N + 1] int64, the length of each.
        token_length: [V] int64, the length of each token, 0 for ids without text.
        of_token: Which suffix the last bytes of a token are, for all tokens and numbers of bytes that are one.
        of_suffix: Which suffix the last bytes of a suffix are.
    """

    texts: tuple[bytes, ...]
    trie: Trie
    length: NDArray[np.int64]
    token_length: NDArray[np.int64]
    of_token: _Suffixes
    of_suffix: _Suffixes

    @classmethod
    def of(cls, tokens: JoinedTokens, ends: bytes = ENDS, fewer: TokenSuffixes | None = None) -> TokenSuffixes:
        """Find the suffixes of some tokens.

        Args:
            tokens: The tokens.
            ends: The bytes after which suffixes begin.
            fewer: The suffixes after fewer bytes, which keep their numbers.
        """
        first = () if fewer is None else fewer.texts
        is_end = np.zeros(256, np.bool_)
        is_end[[*ends]] = True
        at = np.flatnonzero(is_end[tokens.text])
        place = np.searchsorted(tokens.begin, at, side="right") - 1
        left = tokens.begin[place] + tokens.length[place] - at - 1
        place, left = place[left > 0], left[left > 0]
        found = [tokens.spelled[i][-n:] for i, n in zip(place.tolist(), left.tolist(), strict=True)]
        texts = (*first, *sorted({*found}.difference(first)))
        number = {text: i + 1 for i, text in enumerate(texts)}
        inside = [
            (i + 1, n, number[text[-n:]])
            for i, text in enumerate(texts)
            for n in range(1, len(text) + 1)
            if text[-n:] in number
        ]
        lengths = np.array([0, *map(len, texts)], np.int64)
        width = int(lengths.max()) + 1
        inner, shorter, named_inside = np.array(inside, np.int64).reshape(-1, 3).T
        named = np.array([number[text] for text in found], np.int64)
        return cls(
            texts,
            Trie.of(texts),
            lengths,
            tokens.length_of_id,
            _Suffixes.of(tokens.ids[place], left, named, width),
            _Suffixes.of(inner, shorter, named_inside, width),
        )

    def __len__(self) -> int:
        return len(self.length)

    @property
    def longest(self) -> int:
        """The length of the longest one."""
        return int(self.length.max())


@dataclass(frozen=True, eq=False, slots=True)
class _Suffixes:
    """Suffixes by what they are the end of, and by their length."""

    keys: NDArray[np.int64]
    numbers: NDArray[np.int64]
    width: int

    @classmethod
    def of(
        cls, whole: NDArray[np.int64], length: NDArray[np.int64], number: NDArray[np.int64], width: int
    ) -> _Suffixes:
        keys = whole * width + length
        order = np.argsort(keys)
        return cls(keys[order], number[order], width)

    def find(self, whole: NDArray[np.integer], length: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the number of the last `length` bytes of each; 0 for the empty suffix.

        Raises:
            LookupError: The bytes are not a suffix, as no byte before them ends something.
        """
        found = np.zeros(len(whole), np.int64)
        some = np.flatnonzero(length)
        keys = whole[some].astype(np.int64) * self.width + length[some]
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        if len(some) and not (len(self.keys) and np.array_equal(self.keys[place], keys)):
            raise LookupError(
                "these bytes of a token are no remainder; only quotes and closing brackets have remainders"
            )
        found[some] = self.numbers[place]
        return found
