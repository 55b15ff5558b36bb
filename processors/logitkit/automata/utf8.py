"""From characters to bytes: UTF-8 as a tree of decisions over the symbols of an alphabet.

The bytes of a character lead from the root to a leaf that is its symbol. Subtrees that decide alike are one node, so `.` needs a
handful of nodes and Unicode's word characters a few hundred. The tree belongs to the alphabet; every state of an
automaton shares it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.alphabet import Alphabet

# Lead bytes and the first code point that each begins, by number of continuation bytes.
LEADS = (
    (1, np.arange(0xC2, 0xE0), (np.arange(0xC2, 0xE0) & 0x1F) << 6),
    (2, np.arange(0xE0, 0xF0), (np.arange(0xE0, 0xF0) & 0x0F) << 12),
    (3, np.arange(0xF0, 0xF5), (np.arange(0xF0, 0xF5) & 0x07) << 18),
)
# Code points below these are overlong in so many continuation bytes.
SMALLEST = {1: 0x80, 2: 0x800, 3: 0x10000}

NOWHERE = bytes(64 * 8)


@dataclass(frozen=True, eq=False, slots=True)
class Utf8Tree:
    """The decisions of UTF-8 for one alphabet.

    Args:
        ascii: [128] symbol of each one-byte character.
        leads: For each lead byte (index 0 is 0xC2), its node.
        heights: [N] continuation bytes that a node still expects; node 0 is dead.
        children: [N, 64] by continuation byte: a symbol where the height is 1, else a node.
    """

    ascii: NDArray[np.int64]
    leads: NDArray[np.int64]
    heights: NDArray[np.int64]
    children: NDArray[np.int64]

    @classmethod
    def of(cls, alphabet: Alphabet) -> Utf8Tree:
        """Build the tree from the top, one level at a time, and merge equal nodes from the bottom."""
        builder = _Builder(alphabet)
        leads = np.concatenate([builder.nodes(height, first, SMALLEST[height]) for height, _, first in LEADS])
        return cls(
            alphabet.symbol_at(np.arange(128)),
            leads,
            np.array(builder.heights, np.int64),
            np.array(builder.rows, np.int64).reshape(-1, 64),
        )


class _Builder:
    def __init__(self, alphabet: Alphabet) -> None:
        self.alphabet = alphabet
        self.heights = [0]
        self.rows: list[NDArray[np.int64]] = [np.zeros(64, np.int64)]
        self.known: dict[tuple[int, bytes], int] = {}

    def nodes(self, height: int, first: NDArray[np.int64], smallest: int) -> NDArray[np.int64]:
        """Return the nodes that decide the 64 ** height code points from each of `first` on."""
        span = 64**height
        bounds, symbols = self.alphabet.bounds, self.alphabet.symbols
        run = np.searchsorted(bounds, first, side="right") - 1
        run_end = np.append(bounds[1:], 0x110000)[run]
        uniform = (run_end >= first + span) & (first >= smallest)
        result = np.zeros(len(first), np.int64)
        for symbol in np.unique(symbols[run[uniform]]).tolist():
            result[uniform & (symbols[run] == symbol)] = self.uniform(height, symbol)
        mixed = np.flatnonzero(~uniform)
        if len(mixed):
            starts = (first[mixed, None] + np.arange(64) * (span // 64)).ravel()
            legal = (starts + span // 64 > smallest) & (starts <= 0x10FFFF)
            below = np.zeros(len(starts), np.int64)
            if height == 1:
                below[legal] = self.alphabet.symbol_at(starts[legal])
            else:
                below[legal] = self.nodes(height - 1, starts[legal], smallest)
            result[mixed] = self.numbered(height, below.reshape(-1, 64))
        return result

    def uniform(self, height: int, symbol: int) -> int:
        """Return the node all of whose characters are one symbol."""
        if symbol == 0:
            return 0
        below = symbol if height == 1 else self.uniform(height - 1, symbol)
        return self.numbered(height, np.full((1, 64), below, np.int64))[0]

    def numbered(self, height: int, rows: NDArray[np.int64]) -> list[int]:
        """Return the nodes whose children are these rows; equal ones are one node, and those that lead nowhere are node 0."""
        content = rows.tobytes()
        found: list[int] = []
        for i in range(len(rows)):
            row = content[i * len(NOWHERE) : (i + 1) * len(NOWHERE)]
            number = 0 if row == NOWHERE else self.known.setdefault((height, row), len(self.rows))
            if number == len(self.rows):
                self.rows.append(rows[i])
                self.heights.append(height)
            found.append(number)
        return found
