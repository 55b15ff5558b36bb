"""The symbols of a pattern: classes of code points that none of its character sets tells apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.patterns.charset import MAX_CODE_POINT, CharSet

# Surrogates cannot be encoded in UTF-8: no text holds them, so they belong to no symbol.
SURROGATES = (0xD800, 0xDFFF)


@dataclass(frozen=True, eq=False, slots=True)
class Alphabet:
    """A partition of the code points; symbol 0 is all that belongs to no set.

    Args:
        bounds: [N] int64, first code point of each run; the first is 0.
        symbols: [N] int64, symbol of each run.
        size: Number of symbols, 0 included.
        members: Symbols of each character set, as a bit mask.
    """

    bounds: NDArray[np.int64]
    symbols: NDArray[np.int64]
    size: int
    members: dict[CharSet, int]

    @classmethod
    def of(cls, sets: Iterable[CharSet]) -> Alphabet:
        """Find the coarsest partition of which every set is a union."""
        distinct = list(dict.fromkeys(sets))
        edges = {0, SURROGATES[0], SURROGATES[1] + 1}
        for charset in distinct:
            for first, last in charset.ranges:
                edges.add(first)
                edges.add(last + 1)
        edges.discard(MAX_CODE_POINT + 1)
        bounds = np.array(sorted(edges), np.int64)
        # Signature of a run: the sets it belongs to. +1 at a range's first run, -1 behind its last, then a running sum.
        delta = np.zeros((len(distinct), len(bounds) + 1), np.int8)
        for row, charset in enumerate(distinct):
            if charset.ranges:
                flat = np.array(charset.ranges, np.int64)
                delta[row, np.searchsorted(bounds, flat[:, 0])] += 1
                delta[row, np.searchsorted(bounds, flat[:, 1] + 1)] -= 1
        inside = np.cumsum(delta[:, :-1], axis=1, dtype=np.int8).astype(bool)
        inside[:, np.searchsorted(bounds, SURROGATES[0])] = False
        packed = np.ascontiguousarray(np.packbits(inside, axis=0).T)
        number: dict[bytes, int] = {b"\0" * packed.shape[1]: 0}
        symbols = np.array([number.setdefault(key.tobytes(), len(number)) for key in packed], np.int64)
        members = {}
        for row, charset in enumerate(distinct):
            mask = 0
            for symbol in np.unique(symbols[inside[row]]).tolist():
                mask |= 1 << symbol
            members[charset] = mask
        return cls(bounds, symbols, len(number), members)

    def merged(self, number: NDArray[np.int64]) -> Alphabet:
        """Return the alphabet in which each symbol has a new number, several perhaps the same; its sets are forgotten."""
        symbols = number[self.symbols]
        begins = np.append(True, symbols[1:] != symbols[:-1])
        return Alphabet(self.bounds[begins], symbols[begins], int(number.max()) + 1, {})

    def symbol_at(self, code_points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the symbol of each code point."""
        return self.symbols[np.searchsorted(self.bounds, code_points, side="right") - 1]
