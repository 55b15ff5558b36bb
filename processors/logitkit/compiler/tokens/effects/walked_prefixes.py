"""The prefixes of texts that a walk through an automaton follows at the same time.

The stacks of brackets that walks through an automaton have opened, numbered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.vocabulary.ranges import cut_by_sum
from logitkit.vocabulary.trie import Trie

__all__ = [
    "BASE_STATE",
    "COUNT",
    "EMPTY",
    "HEIGHT",
    "PREFIXES_AT_ONCE",
    "SOURCE",
    "STACK",
    "STATE",
    "Found",
    "Frontier",
    "Popped",
    "WalkStarts",
    "WalkedStacks",
]

Ints = NDArray[np.int64]

# The stack without frames.
EMPTY = 0


class WalkedStacks:
    """Numbers stacks from 0 on, in the order in which they are met.

    Args:
        uncounted: [F] bool, the frames that do not count as height.
    """

    def __init__(self, uncounted: NDArray[np.bool_]) -> None:
        self._counts: list[int] = (~uncounted).astype(np.int64).tolist()
        self._below, self._top, self._height = [EMPTY], [0], [0]
        self._number: dict[tuple[int, int], int] = {}

    def pushed(self, stacks: Ints, frames: Ints) -> tuple[list[int], list[int]]:
        """Return the stacks with one more frame each, and their heights."""
        pairs = [*zip(stacks.tolist(), frames.tolist(), strict=True)]
        for stack, frame in sorted({*pairs}.difference(self._number)):
            self._number[stack, frame] = len(self._below)
            self._below.append(stack)
            self._top.append(frame)
            self._height.append(self._height[stack] + self._counts[frame])
        found = [self._number[pair] for pair in pairs]
        return found, [self._height[stack] for stack in found]

    def popped(self, stacks: Ints) -> tuple[list[int], list[int]]:
        """Return the stacks without their last frames, and these frames."""
        numbers = stacks.tolist()
        return [self._below[stack] for stack in numbers], [self._top[stack] for stack in numbers]

    def frames(self, stack: int) -> tuple[int, ...]:
        """Return the frames of a stack, the outermost first."""
        found = []
        while stack != EMPTY:
            found.append(self._top[stack])
            stack = self._below[stack]
        return tuple(found[::-1])


# About this many prefixes are followed at once, as each takes some hundred bytes: two million would take 150 MB.
PREFIXES_AT_ONCE = 2**16

# The rows of the columns.
SOURCE, STATE, STACK, HEIGHT, BASE_STATE, COUNT = range(6)


class Frontier(NamedTuple):
    """The prefixes on one level.

    Args:
        columns: [6, N] int64: the walk of each, its state, its stack, the most brackets on that, its base state, and
            the characters that it has counted. One array, since taking some of N prefixes costs more than what N is.
        node: [N] their nodes.
    """

    columns: NDArray[np.integer]
    node: NDArray[np.integer]

    def take(self, which: Ints) -> Frontier:
        """Return some of them."""
        return Frontier(self.columns.take(which, axis=1), self.node[which])

    def narrowed(self) -> Frontier:
        """Return them in about half of the memory, to keep."""
        return Frontier(self.columns.astype(np.int32), self.node)

    @classmethod
    def joined(cls, frontiers: list[Frontier]) -> Frontier:
        """Return the prefixes of several frontiers."""
        if len(frontiers) == 1:
            return frontiers[0]
        return cls(np.concatenate([f.columns for f in frontiers], axis=1), np.concatenate([f.node for f in frontiers]))

    def blocks(self, trie: Trie) -> list[Frontier]:
        """Return them in parts that have about `PREFIXES_AT_ONCE` children each."""
        if 256 * len(self.node) <= PREFIXES_AT_ONCE:
            return [self]
        count = trie.children[self.node + 1] - trie.children[self.node]
        return [Frontier(self.columns[:, a:b], self.node[a:b]) for a, b in cut_by_sum(count, PREFIXES_AT_ONCE)]


class WalkStarts(NamedTuple):
    """Where walks begin.

    Args:
        source: The number by which each walk is named.
        node: The node of the trie.
        state: The state that the text up to that node has led to.
        base_state: The state of a fragment in which other walks do the same, but for some texts; 0 if there is none.
        unquoted: Whether no text is followed that begins with a quote.
    """

    source: Ints
    node: Ints
    state: Ints
    base_state: Ints
    unquoted: NDArray[np.bool_]

    @classmethod
    def at_root(
        cls, states: Ints, base_state: Ints | None = None, unquoted: NDArray[np.bool_] | None = None
    ) -> WalkStarts:
        """Begin in some states with whole texts."""
        nothing = np.zeros(len(states), np.int64)
        return cls(
            states,
            nothing,
            states,
            nothing if base_state is None else base_state,
            np.zeros(len(states), bool) if unquoted is None else unquoted,
        )


class Found(NamedTuple):
    """The actions of texts.

    Args:
        source: The walk.
        token: The id of the text in the trie.
        action: The number of its action; `DEAD` only where its base state might do something else.
    """

    source: Ints
    token: Ints
    action: Ints


class Popped(NamedTuple):
    """Where walks close a bracket that was open before.

    Args:
        source: The walk.
        node: The node of the trie at which it does.
        end: The end.
        height: The most frames that were pushed and popped before.
    """

    source: Ints
    node: Ints
    end: Ints
    height: Ints

    def blocks(self, trie: Trie) -> Iterator[Popped]:
        """Yield them in parts with about `PREFIXES_AT_ONCE` texts each."""
        for begin, end in cut_by_sum(trie.below[self.node], PREFIXES_AT_ONCE):
            yield Popped(*(column[begin:end] for column in self))
