"""Make chains of fallbacks short, however long the texts are that an automaton looks for.

A look-up visits a state and all that it falls back to, one after another; on a device all rows of a batch wait for the longest
chain of the registry. So a state at depth d of its chain takes over the rows of the next few below it, as many as the lowest bit
of d says, and falls back to the one below these: no chain is longer than the bits of its depth, and no row is copied more often
than that.

Source: Fenwick, A new data structure for cumulative frequency tables (1994), for which rows to take over.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.sorting import stable_order
from logitkit.compiler.bytes.transition_columns import Ints, starts
from logitkit.vocabulary.ranges import expand

__all__ = ["Rows", "chain_lengths", "shortened"]

# Shorter chains cost less than longer rows.
LONG = 8


class Rows(NamedTuple):
    """The classes that each state lists, with their targets, and the state that does the rest.

    Args:
        start: [S + 1] int64, where the row of each state begins.
        symbol: The classes of a row, ascending.
        target: Their targets.
        fallback: [S] the state that each falls back to, itself at the end.
    """

    start: NDArray[np.int64]
    symbol: NDArray[np.integer]
    target: NDArray[np.signedinteger]
    fallback: NDArray[np.int64]


def chain_lengths(fallback: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each state how many others it falls back through: [S]."""
    length: NDArray[np.int64] = (fallback != np.arange(len(fallback))).astype(np.int64)
    up = fallback
    # Each round looks twice as far.
    while (more := length[up]).any():
        length = length + more
        up = up[up]
    return length


def shortened(rows: Rows, classes: int) -> Rows:
    """Return rows that say the same with short chains of fallbacks.

    Args:
        rows: Any rows; those whose chains are short are returned as they are.
        classes: Number of classes.
    """
    depth = chain_lengths(rows.fallback)
    if depth.max(initial=0) < LONG:
        return rows
    taken = depth & -depth
    fallback = rows.fallback.copy()
    place = np.zeros(len(depth), np.int64)  # of each state among those that take over as many
    levels: list[tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.signedinteger]]] = []
    found: list[tuple[Ints, NDArray[np.integer], NDArray[np.signedinteger]]] = []
    up = [rows.fallback]  # up[i]: the state 2**i below
    for level in range(int(depth.max()).bit_length()):
        members = np.flatnonzero((taken == 1 << level) | ((depth == 0) & (level == 0)))
        own, count = rows.start[members], rows.start[members + 1] - rows.start[members]
        at, owner = expand(own, count)
        pieces = [(owner, rows.symbol[at], rows.target[at])]
        # The nearest first: what it lists counts.
        for i in range(level):
            start, symbol, target = levels[i]
            below = place[up[i][members]]
            at, owner = expand(start[below], start[below + 1] - start[below])
            pieces.append((owner, symbol[at], target[at]))
        owner, symbol, target = (np.concatenate(part) for part in zip(*pieces, strict=True))
        key, first = np.unique(owner * np.int64(classes) + symbol, return_index=True)
        owner, symbol, target = key // classes, symbol[first], target[first]
        levels.append((starts(np.bincount(owner, minlength=len(members))), symbol, target))
        found.append((members[owner], symbol, target))
        place[members] = np.arange(len(members))
        fallback[members] = up[level][members]
        up.append(up[level][up[level]])
    source, symbol, target = (np.concatenate(part) for part in zip(*found, strict=True))
    order = stable_order(source)
    return Rows(starts(np.bincount(source, minlength=len(depth))), symbol[order], target[order], fallback)
