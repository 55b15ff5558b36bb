"""The prefixes of texts that a walk through an automaton follows at the same time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.vocabulary.ranges import cut_by_sum
from logitkit.vocabulary.trie import Trie

__all__ = ["COUNT", "HEIGHT", "LIKE", "PREFIXES_AT_ONCE", "SOURCE", "STACK", "STATE", "Front"]

Ints = NDArray[np.int64]

# About so many prefixes are followed at once, as each takes some hundred bytes: two million would take 150 MB.
PREFIXES_AT_ONCE = 2**16

# The rows of the columns.
SOURCE, STATE, STACK, HEIGHT, LIKE, COUNT = range(6)


class Front(NamedTuple):
    """The prefixes on one level.

    Args:
        columns: [6, N] int64: the walk of each, its state, its stack, the most brackets on that, the state that it is like, and
            the characters that it has counted. One array, since taking some of N prefixes costs more than what N is.
        node: [N] their nodes.
    """

    columns: NDArray[np.integer]
    node: NDArray[np.integer]

    def take(self, which: Ints) -> Front:
        """Return some of them."""
        return Front(self.columns.take(which, axis=1), self.node[which])

    def narrowed(self) -> Front:
        """Return them in half of the memory, to keep."""
        return Front(self.columns.astype(np.int32), self.node.astype(np.int32))

    @classmethod
    def joined(cls, fronts: list[Front]) -> Front:
        """Return the prefixes of several fronts."""
        if len(fronts) == 1:
            return fronts[0]
        return cls(np.concatenate([f.columns for f in fronts], axis=1), np.concatenate([f.node for f in fronts]))

    def blocks(self, trie: Trie) -> list[Front]:
        """Return them in parts that have about `PREFIXES_AT_ONCE` children each."""
        count = trie.children[self.node + 1] - trie.children[self.node]
        return [Front(self.columns[:, a:b], self.node[a:b]) for a, b in cut_by_sum(count, PREFIXES_AT_ONCE)]
