"""A state with a count: one number, of which the lower half is the state and the upper half the count.

In `{"maxLength": 1000}`, the states of a string are those of any string, and the count is the number of characters written so
far. Everything that stores or compares states works unchanged, and states of automata that count nothing are as they were.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.leaf import MOST

__all__ = ["COUNT", "MOST", "STATE", "Counting", "Thresholds"]

# The bits of the state, and the place of the count.
STATE, COUNT = 2**32 - 1, 32


class Counting(NamedTuple):
    """What outcomes do to the count: all are [N] int32.

    Args:
        low: The least count before the token for which the outcome is legal.
        high: The greatest one.
        kept: 1 where the token's own characters are added to the count, 0 where counting starts again.
        added: How many these are.
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    kept: NDArray[np.int32]
    added: NDArray[np.int32]

    @classmethod
    def of(cls, table: NDArray[np.int32]) -> Counting:
        """Take the rows of a table [4, N] apart."""
        return cls(*table)

    def most(self, state: NDArray[np.int32], states: int) -> NDArray[np.int64]:
        """Return [S] the greatest count with which each state may be entered.

        Args:
            state: [N] the state in which each outcome ends.
            states: The number of states.
        """
        added = self.added.astype(np.int64)
        found = np.zeros(states, np.int64)
        np.maximum.at(found, state, np.where(self.kept > 0, np.minimum(self.high, MOST - added), 0) + added)
        return found


class Thresholds:
    """The counts at which the legal tokens of a state change.

    Masks are computed for such counts alone: from 0 to 900 characters of 1,000 the same tokens are legal.

    Args:
        row_start: Where the row of each state begins.
        row_target: The targets in these rows.
        states: The number of states; targets from here on are outcomes.
        counting: What they do to the count.
    """

    def __init__(
        self, row_start: NDArray[np.int64], row_target: NDArray[np.signedinteger], states: int, counting: Counting
    ) -> None:
        self._rows = row_start, row_target, states
        self._counting = counting
        self._known: dict[int, list[int]] = {}

    def canonical(self, state: int) -> int:
        """Return the state with the least count with which the same tokens are legal."""
        alone = state & STATE
        known = self._known.get(alone)
        if known is None:
            known = self._known[alone] = self._of(alone)
        return alone | known[bisect_right(known, state >> COUNT) - 1] << COUNT

    def _of(self, state: int) -> list[int]:
        row_start, row_target, states = self._rows
        targets = row_target[int(row_start[state]) : int(row_start[state + 1])].astype(np.int64)
        outcomes = targets[targets >= states] - states
        changes = np.concatenate([self._counting.low[outcomes], self._counting.high[outcomes].astype(np.int64) + 1])
        return [0, *np.unique(changes[(changes > 0) & (changes <= MOST)]).tolist()]
