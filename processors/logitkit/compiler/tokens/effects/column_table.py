"""All columns that have been met, each once, in arrays that grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, contents
from logitkit.limits import Limits

__all__ = ["ColumnTable", "Growing"]


class Growing:
    """An array that is appended to, and doubles its room when it is full."""

    def __init__(self, first: NDArray[Any]) -> None:
        self.size = len(first)
        self.room = np.empty(max(1024, 2 * self.size), first.dtype)
        self.room[: self.size] = first

    def append(self, more: NDArray[Any]) -> None:
        """Append some values."""
        size = self.size + len(more)
        if size > len(self.room):
            room = np.empty(2 * size, self.room.dtype)
            room[: self.size] = self.room[: self.size]
            self.room = room
        self.room[self.size : size] = more
        self.size = size

    @property
    def values(self) -> NDArray[Any]:
        """The values that have been appended so far; a view."""
        return self.room[: self.size]


class ColumnTable:
    """Numbers columns as they are met; column 0 leads to death from everywhere.

    Args:
        states: The type of the numbers of states.
        limits: Bound on the work.
        work: The steps that were counted before.
    """

    def __init__(self, states: DTypeLike, limits: Limits, work: int) -> None:
        self.limits = limits
        self.work = work
        nothing = np.zeros(0, states)
        self._default = Growing(np.zeros(1, states))
        self._start = Growing(np.zeros(2, np.int64))
        self._source = Growing(nothing)
        self._target = Growing(nothing)
        self._number: dict[tuple[int, bytes], int] = {(DEAD, b""): 0}

    def __len__(self) -> int:
        return self._default.size

    @property
    def table(self) -> TransitionColumns:
        """All columns so far; views that may lack those that are added later."""
        return TransitionColumns(self._default.values, self._start.values, self._source.values, self._target.values)

    def charge(self, steps: int) -> None:
        """Count steps that were taken."""
        self.work += steps
        self.limits.check_work(self.work)

    def _numbers(self, met: TransitionColumns, steps: int) -> Ints:
        """Return the numbers of some columns that took some steps to find; those not met before get new ones."""
        self.charge(len(met) + steps)
        numbers = np.zeros(len(met), np.int64)
        # Most columns are dead everywhere.
        busy = ((met.default != DEAD) | (met.start[1:] > met.start[:-1])).nonzero()[0]
        if len(busy) < len(met):
            met = TransitionColumns(
                met.default[busy], np.append(met.start[busy], met.start[-1]), met.source, met.target
            )
        fresh: list[int] = []
        found: list[int] = []
        for i, content in enumerate(contents(met)):
            known = len(self._number)
            number = self._number.setdefault(content, known)
            if number == known:
                fresh.append(i)
            found.append(number)
        numbers[busy] = found
        if fresh:
            self._append(met if len(fresh) == len(met) else met.take(np.array(fresh)))
        return numbers

    def _append(self, fresh: TransitionColumns) -> None:
        begin = self._source.size
        self._default.append(fresh.default)
        self._start.append(fresh.start[1:] + begin)
        self._source.append(fresh.source)
        self._target.append(fresh.target)
