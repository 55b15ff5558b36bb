"""Token ids sorted by the bytes of their tokens, without comparing most tokens in Python.

The first eight bytes of a token are one number, whose order is that of the bytes. Only tokens with equal numbers are compared as
texts: those that share eight bytes, and those that differ in zero bytes at the end alone.

Example, by hand: `a`, `ab` and `b` are 0x61 00 .., 0x61 62 .. and 0x62 00 .., which are in this order as numbers too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["SortedTokens"]

# The number of bytes in a number of 64 bits, and for each length of a token up to that, the bits that it fills.
WORD = 8
FILLED = np.array([0, *(2**64 - 2 ** (64 - 8 * count) for count in range(1, WORD + 1))], np.uint64)


@dataclass(frozen=True, eq=False, slots=True)
class SortedTokens:
    """The tokens with text, sorted by their bytes, and equal ones by their ids.

    Args:
        ids: int64, their ids.
        text: uint8, the bytes of all of them, in no particular order.
        begin: int64, where each begins in `text`.
        length: int64, the number of bytes of each.
    """

    ids: NDArray[np.int64]
    text: NDArray[np.uint8]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]

    @classmethod
    def of(cls, tokens: Sequence[bytes | None]) -> SortedTokens:
        """Sort tokens; None has no text."""
        spelled = [token for token in tokens if token]
        ids = np.flatnonzero(np.fromiter(map(bool, tokens), np.bool_, len(tokens)))
        length = np.fromiter(map(len, spelled), np.int64, len(spelled))
        text = np.frombuffer(b"".join(spelled) + bytes(WORD), np.uint8)
        begin = np.cumsum(length) - length
        words = np.lib.stride_tricks.sliding_window_view(text, WORD)[begin].view(">u8")[:, 0].astype(np.uint64)
        words &= FILLED[np.minimum(length, WORD)]
        order = np.argsort(words)
        words = words[order]
        alike = words[1:] == words[:-1]
        places = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
        # Sorted by text, they stay between the others, and those with equal numbers stay together.
        compared = sorted(order[places].tolist())
        compared.sort(key=spelled.__getitem__)
        order[places] = compared
        return cls(ids[order], text, begin[order], length[order])
