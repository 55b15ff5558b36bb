"""A state with a count, as one number: its lower half is the state, and its upper half the count.

With `{"maxLength": 1000}`, a string would need a copy of its states for each of a thousand lengths. Instead, a row has the
states of any string, and counts the characters that it has written. Because both are one number, code that stores, compares or
saves states needs no change, and the states of automata that do not count are plain numbers.

By hand: after `{"a": "xyz`, a row in state 7 has written three characters: 3 * 2**32 + 7 = 12884901895.

Invariants: a state has at most 32 bits, and a count at most 31 (`MOST`), so the number is not negative. The count of a dead or
finished row is 0, so a number is less than `FIRST_STATE` exactly if its state is.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logitkit.compiler.bytes.string_fragment import MOST
from logitkit.compiler.tokens.tables.targets import Targets

__all__ = ["COUNT_SHIFT", "MOST", "STATE_BITS", "Counting", "StateAndCount", "Thresholds"]

# The bits of the state, and the place of the count. Only `StateAndCount` and `kernels.codes` use them.
STATE_BITS, COUNT_SHIFT = 2**32 - 1, 32

_Number = TypeVar("_Number", int, Tensor)


class StateAndCount:
    """Reads and writes states with counts, as numbers or as tensors of int64."""

    @staticmethod
    def of(state: _Number, count: _Number) -> _Number:
        """Return a plain state with a count."""
        return state | count << COUNT_SHIFT

    @staticmethod
    def state(counted: _Number) -> _Number:
        """Return the state without its count."""
        return counted & STATE_BITS

    @staticmethod
    def count(counted: _Number) -> _Number:
        """Return the count."""
        return counted >> COUNT_SHIFT


class Counting(NamedTuple):
    """The effects of actions on the count: [N] int32 each.

    Args:
        low: The least count before the token with which the action is legal.
        high: The greatest count with which it is legal.
        kept: 1 if `added` is added to the count, 0 if counting starts again with it.
        added: How many characters of the token are counted.
    """

    low: NDArray[np.int32]
    high: NDArray[np.int32]
    kept: NDArray[np.int32]
    added: NDArray[np.int32]

    @classmethod
    def of(cls, table: NDArray[np.int32]) -> Counting:
        """Return the four rows of a table, [4, N]."""
        return cls(*table)

    def most(self, state: NDArray[np.int32], states: int) -> NDArray[np.int64]:
        """Return [S] the greatest count with which each state may be entered.

        Args:
            state: [N] the state in which each action ends.
            states: The number of states.
        """
        added = self.added.astype(np.int64)
        found = np.zeros(states, np.int64)
        np.maximum.at(found, state, np.where(self.kept > 0, np.minimum(self.high, MOST - added), 0) + added)
        return found


class Thresholds:
    """The counts at which the legal tokens of a state change.

    If no token has more than 100 characters, then the same tokens are legal after 0 to 900 of at most 1,000 characters. So one
    mask is computed for all these counts.

    Args:
        row_start: Where the row of each state begins.
        row_target: The targets in these rows.
        targets: Says which targets are actions.
        counting: The effects of actions on the count.
    """

    def __init__(
        self, row_start: NDArray[np.int64], row_target: NDArray[np.signedinteger], targets: Targets, counting: Counting
    ) -> None:
        self._rows = row_start, row_target, targets
        self._counting = counting
        self._known: dict[int, list[int]] = {}

    def canonical(self, state: int) -> int:
        """Return the state with the least count with which the same tokens are legal."""
        alone = StateAndCount.state(state)
        known = self._known.get(alone)
        if known is None:
            known = self._known[alone] = self._of(alone)
        least = known[bisect_right(known, StateAndCount.count(state)) - 1]
        return StateAndCount.of(alone, least) if least else alone

    def _of(self, state: int) -> list[int]:
        row_start, row_target, targets = self._rows
        row = row_target[int(row_start[state]) : int(row_start[state + 1])].astype(np.int64)
        actions = targets.action_number(row[targets.is_action(row)])
        changes = np.concatenate([self._counting.low[actions], self._counting.high[actions].astype(np.int64) + 1])
        return [0, *np.unique(changes[(changes > 0) & (changes <= MOST)]).tolist()]
