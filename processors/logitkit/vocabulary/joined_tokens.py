"""The tokens of a vocabulary as one text, and sorted by their bytes, without comparing most of them in Python.

The first eight bytes of a token are one number, whose order is that of the bytes. Only tokens with equal numbers are compared as
texts: those that share eight bytes, and those that differ in zero bytes at the end alone.

Example, by hand: `a`, `ab` and `b` are 0x61 00 .., 0x61 62 .. and 0x62 00 .., which are in this order as numbers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["JoinedTokens"]

# The number of bytes in a number of 64 bits, and for each length of a token up to that, the bits that it fills.
WORD = 8
FILLED = np.array([0, *(2**64 - 2 ** (64 - 8 * count) for count in range(1, WORD + 1))], np.uint64)


@dataclass(frozen=True, eq=False, slots=True)
class JoinedTokens:
    """The tokens with text, one after the other.

    Args:
        spelled: The tokens.
        ids: int64, their ids.
        padded: uint8, the bytes of all of them, and a few more.
        begin: int64, where each begins.
        length: int64, the number of bytes of each.
        size: The number of ids, with those without text.
    """

    spelled: tuple[bytes, ...]
    ids: NDArray[np.int64]
    padded: NDArray[np.uint8]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]
    size: int

    @classmethod
    def of(cls, tokens: Sequence[bytes | None]) -> JoinedTokens:
        """Join tokens, of which None and empty ones have no text."""
        spelled = tuple([token for token in tokens if token])
        ids = np.flatnonzero(np.fromiter(map(bool, tokens), np.bool_, len(tokens)))
        length = np.fromiter(map(len, spelled), np.int64, len(spelled))
        padded = np.frombuffer(b"".join(spelled) + bytes(WORD), np.uint8)
        return cls(spelled, ids, padded, np.cumsum(length) - length, length, len(tokens))

    @property
    def text(self) -> NDArray[np.uint8]:
        """The bytes of all tokens."""
        return self.padded[:-WORD]

    @property
    def length_of_id(self) -> NDArray[np.int64]:
        """[V] int64, the length of every id; 0 for one without text."""
        lengths = np.zeros(self.size, np.int64)
        lengths[self.ids] = self.length
        return lengths

    def order(self) -> NDArray[np.int64]:
        """Return the places of the tokens sorted by their bytes, and of equal ones by their ids."""
        words = np.lib.stride_tricks.sliding_window_view(self.padded, WORD)[self.begin].view(">u8")[:, 0]
        words = words.astype(np.uint64) & FILLED[np.minimum(self.length, WORD)]
        order = np.argsort(words)
        words = words[order]
        alike = words[1:] == words[:-1]
        places = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
        # Sorted by text, they stay between the others, and those with equal numbers stay together.
        compared = np.sort(order[places]).tolist()
        compared.sort(key=self.spelled.__getitem__)
        order[places] = compared
        return order
