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
        flat = np.array([pair for charset in distinct for pair in charset.ranges], np.int64).reshape(-1, 2)
        first, behind = flat[:, 0], flat[:, 1] + 1
        edges = {0, SURROGATES[0], SURROGATES[1] + 1, *first.tolist(), *behind.tolist()}
        edges.discard(MAX_CODE_POINT + 1)
        bounds = np.array(sorted(edges), np.int64)
        # Signature of a run: the sets it belongs to. +1 at a range's first run, -1 behind its last, then a running sum.
        delta = np.zeros((len(distinct), len(bounds) + 1), np.int8)
        rows = np.repeat(np.arange(len(distinct)), [len(charset.ranges) for charset in distinct])
        delta[rows, bounds.searchsorted(first)] += 1
        delta[rows, bounds.searchsorted(behind)] -= 1
        inside = np.cumsum(delta[:, :-1], axis=1, dtype=np.int8).astype(bool)
        inside[:, np.searchsorted(bounds, SURROGATES[0])] = False
        packed = np.packbits(inside, axis=0).T.tobytes() or bytes(len(bounds))
        width = len(packed) // len(bounds)
        number: dict[bytes, int] = {bytes(width): 0}
        symbols = [number.setdefault(packed[i : i + width], len(number)) for i in range(0, len(packed), width)]
        # One run of each symbol tells which sets hold it.
        run_of = dict(zip(symbols, range(len(symbols)), strict=True))
        holds = inside[:, list(run_of.values())].tolist()
        masks = [sum(1 << symbol for symbol, inside_ in zip(run_of, row, strict=True) if inside_) for row in holds]
        members = dict(zip(distinct, masks, strict=True))
        return cls(bounds, np.array(symbols, np.int64), len(number), members)

    def merged(self, number: NDArray[np.int64]) -> Alphabet:
        """Return the alphabet in which each symbol has a new number, several perhaps the same; its sets are forgotten."""
        symbols = number[self.symbols]
        begins = np.append(True, symbols[1:] != symbols[:-1])
        return Alphabet(self.bounds[begins], symbols[begins], int(number.max()) + 1, {})

    def symbol_at(self, code_points: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the symbol of each code point."""
        return self.symbols[np.searchsorted(self.bounds, code_points, side="right") - 1]
