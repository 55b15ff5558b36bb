"""The columns of the ends of tokens that have been met, each once, and what is looked up on the way from one to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.sorting import stable_order, which_of
from logitkit.compiler.bytes.transition_columns import Ints, starts
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.column_table import ColumnTable
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["Index", "SuffixStore"]


class SuffixStore(ColumnTable):
    """Numbers columns as they are met; column 0 leads to death from everywhere.

    Args:
        actions: The actions that their targets stand for.
        width: Number of byte classes.
        limits: Bound on the work.
        work: The steps that were counted before.
    """

    def __init__(self, actions: ActionNumbering, width: int, limits: Limits, work: int) -> None:
        super().__init__(np.int32, limits, work)
        self.actions = actions
        self.width = width

    def _called(self, frame: Ints, inside: Ints) -> Ints:
        """Return the actions of brackets that push frames, given the action after each."""
        several = 1 + int(inside.max(initial=0))
        pairs, inverse = which_of(frame * np.int64(several) + inside)
        made = [self.actions.called(*divmod(pair, several)) for pair in pairs.tolist()]
        return np.array(made, np.int64)[inverse]


class Index:
    """Values by key: of each key all of them, in their order.

    Args:
        key: The key of each value.
        keys: How many keys there may be.
        columns: The values.

    Attributes:
        counts: How many values each key has.
    """

    def __init__(self, key: Ints, keys: int, *columns: Ints) -> None:
        order = stable_order(key)
        self.counts = np.bincount(key, minlength=keys)
        self._first = starts(self.counts)
        self._columns = [column[order].astype(np.int64) for column in columns]

    def under(self, keys: NDArray[Any]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        """Return all values under some keys, and of each the index of its key."""
        place, owner = expand(self._first[keys], self._first[keys + 1] - self._first[keys])
        return owner, [column[place] for column in self._columns]
