"""The prefixes of texts that walks through an automaton follow at the same time, and the stacks that they have opened.

A *walk* follows the texts of a trie from one state. All walks go on level by level, so on each level there are many prefixes,
each with the state that it leads to. They are rows of arrays, a `Frontier`, and their stacks are numbers.

By hand, for lists such as `[[],[]]` and a walk from the start: its prefix `[` leads to the state inside of the list, with stack
1, which holds the frame of this call. The prefix `[[` has stack 2, which is stack 1 and one more frame. The prefix `[]` has the
empty stack again, number 0, but its height is still 1, because one frame needed room meanwhile.

Invariants: equal stacks have equal numbers. A stack holds only frames that the walk itself has pushed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.vocabulary.ranges import cut_by_sum
from logitkit.vocabulary.trie import Trie

__all__ = [
    "BEYOND",
    "EMPTY",
    "NO_BASE",
    "PREFIXES_AT_ONCE",
    "Children",
    "Found",
    "Frontier",
    "Popped",
    "WalkStarts",
    "WalkedStacks",
]

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

# In place of a base state: there is none, or its walk has left the fragment beyond its end.
NO_BASE, BEYOND = 0, -1


@dataclass(frozen=True, eq=False, slots=True)
class Frontier:
    """The prefixes on one level.

    Args:
        columns: [6, N] the six properties below. They are one array, as taking some columns of one array costs less than taking
            from six.
        node: [N] the node of each prefix in the trie.
    """

    columns: Ints
    node: Ints

    @classmethod
    def at(cls, starts: WalkStarts) -> Frontier:
        """Return the empty prefixes with which walks begin."""
        found = cls(np.zeros((6, len(starts.source)), np.int64), starts.node)
        found.source[:], found.state[:], found.base_state[:] = starts.source, starts.state, starts.base_state
        return found

    @property
    def source(self) -> Ints:
        """[N] view of the walk of each prefix."""
        return self._row(0)

    @property
    def state(self) -> Ints:
        """[N] view of the state that it leads to."""
        return self._row(1)

    @property
    def stack(self) -> Ints:
        """[N] view of its stack."""
        return self._row(2)

    @property
    def height(self) -> Ints:
        """[N] view of the most brackets that were on its stack."""
        return self._row(3)

    @property
    def base_state(self) -> Ints:
        """[N] view of its base state, or `NO_BASE` or `BEYOND`."""
        return self._row(4)

    @property
    def count(self) -> Ints:
        """[N] view of how many characters it has counted."""
        return self._row(5)

    def _row(self, index: int) -> Ints:
        found: Ints = self.columns[index]
        return found

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


class Children(NamedTuple):
    """The prefixes that continue those of a frontier by one byte: [N] each.

    Args:
        node: The node of each in the trie.
        owner: The place in the frontier of the prefix that it continues.
    """

    node: Ints
    owner: Ints

    def take(self, which: NDArray[np.bool_]) -> Children:
        """Return some of them."""
        return Children(self.node[which], self.owner[which])


class WalkStarts(NamedTuple):
    """Where walks begin: [N] each.

    Args:
        source: The number that names the walk.
        node: The node of the trie in which it begins.
        state: The state to which the text up to that node has led.
        base_state: The base state if that is an override state, else 0.
        unquoted: Whether texts that begin with a quote are left out.
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
    """The actions of texts: [N] each.

    Args:
        source: The walk.
        token: The id of the text in the trie.
        action: The number of its action. A dead action is listed only where the base state might do something else.
    """

    source: Ints
    token: Ints
    action: Ints

    @classmethod
    def joined(cls, parts: list[Found]) -> Found:
        """Put several lists after one another."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class Popped(NamedTuple):
    """Where walks close a bracket that was open before they began: [N] each.

    Args:
        source: The walk.
        node: The node of the trie after the byte that closes the bracket.
        end: The end of the automaton.
        height: The most frames that the walk had on its own stack.
    """

    source: Ints
    node: Ints
    end: Ints
    height: Ints

    @classmethod
    def joined(cls, parts: list[Popped]) -> Popped:
        """Put several lists after one another."""
        nothing = cls(*(np.zeros(0, np.int64) for _ in cls._fields))
        return cls(*map(np.concatenate, zip(nothing, *parts, strict=True)))

    def blocks(self, trie: Trie) -> Iterator[Popped]:
        """Yield them in parts with about `PREFIXES_AT_ONCE` texts each."""
        for begin, end in cut_by_sum(trie.below[self.node], PREFIXES_AT_ONCE):
            yield Popped(*(column[begin:end] for column in self))
