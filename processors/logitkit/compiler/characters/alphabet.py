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
        # Where the sets that a code point belongs to change, and which of them do, as bits.
        changes = {0: 0, SURROGATES[0]: 0, SURROGATES[1] + 1: 0}
        for bit, charset in enumerate(distinct):
            for first, last in charset.ranges:
                changes[first] = changes.get(first, 0) ^ 1 << bit
                changes[last + 1] = changes.get(last + 1, 0) ^ 1 << bit
        changes.pop(MAX_CODE_POINT + 1, None)
        number = {0: 0}
        bounds: list[int] = []
        symbols: list[int] = []
        inside = 0
        for bound in sorted(changes):
            inside ^= changes[bound]
            # All surrogates are one run, whichever sets begin or end among them.
            if not SURROGATES[0] < bound <= SURROGATES[1]:
                bounds.append(bound)
                symbols.append(number.setdefault(0 if bound == SURROGATES[0] else inside, len(number)))
        masks = [0] * len(distinct)
        for holding, symbol in number.items():
            left = holding
            while left:
                masks[(left & -left).bit_length() - 1] |= 1 << symbol
                left &= left - 1
        members = dict(zip(distinct, masks, strict=True))
        return cls(np.array(bounds, np.int64), np.array(symbols, np.int64), len(number), members)

    def merged(self, number: NDArray[np.int64]) -> Alphabet:
        """Return the alphabet in which each symbol has a new number, several perhaps the same; its sets are forgotten."""
        symbols = number[self.symbols]
        begins = np.append(True, symbols[1:] != symbols[:-1])
        return Alphabet(self.bounds[begins], symbols[begins], int(number.max()) + 1, {})

    def symbol_at(self, code_points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the symbol of each code point."""
        return self.symbols[np.searchsorted(self.bounds, code_points, side="right") - 1]
