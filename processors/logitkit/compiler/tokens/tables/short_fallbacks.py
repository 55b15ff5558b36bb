"""Make chains of fallbacks short, however long the texts are that an automaton looks for.

A look-up visits a state and then the states that it falls back to, one after another. On a device, all rows of a batch wait for
the longest chain. So a state at depth d of its chain takes over the rows of the next few states below it, and falls back to the
state below these. With its own row, it then has as many rows as the lowest bit of d says.

By hand, for a chain of the depths 8 to 0: the state at depth 6, 110 in binary, takes over the row at depth 5, and falls back to
depth 4. That state takes over the rows at depths 3, 2 and 1, and falls back to depth 0. So a look-up from depth 6 visits three
rows instead of seven.

Invariants: a chain is not longer than the number of bits of its depth plus one, and a row is not copied more often than that.

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
    """The rows of states, and the states that they fall back to.

    Args:
        start: [S + 1] int64, where the row of each state begins.
        symbol: The classes that rows list, ascending within a row.
        target: Their targets.
        fallback: [S] the state that each state falls back to, itself at the end.
    """

    start: NDArray[np.int64]
    symbol: NDArray[np.integer]
    target: NDArray[np.signedinteger]
    fallback: NDArray[np.int64]


def chain_lengths(fallback: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return [S] the length of the chain of each state: how many other states a look-up may visit after it."""
    length: NDArray[np.int64] = (fallback != np.arange(len(fallback))).astype(np.int64)
    up = fallback
    # Each round looks twice as far.
    while (more := length[up]).any():
        length = length + more
        up = up[up]
    return length


def shortened(rows: Rows, classes: int) -> Rows:
    """Return rows with the same content and short chains of fallbacks.

    Args:
        rows: The rows. If their chains are short already, they are returned as they are.
        classes: The number of classes.
    """
    depth = chain_lengths(rows.fallback)
    if depth.max(initial=0) < LONG:
        return rows
    taken = depth & -depth
    fallback = rows.fallback.copy()
    place = np.zeros(len(depth), np.int64)  # the place of each state among those of its level
    levels: list[tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.signedinteger]]] = []
    found: list[tuple[Ints, NDArray[np.integer], NDArray[np.signedinteger]]] = []
    up = [rows.fallback]  # up[i]: the state 2**i below
    for level in range(int(depth.max()).bit_length()):
        members = np.flatnonzero((taken == 1 << level) | ((depth == 0) & (level == 0)))
        own, count = rows.start[members], rows.start[members + 1] - rows.start[members]
        at, owner = expand(own, count)
        pieces = [(owner, rows.symbol[at], rows.target[at])]
        # The nearest state first, because its entry counts.
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
