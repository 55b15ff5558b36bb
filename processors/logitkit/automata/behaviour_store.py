"""All behaviours that have been met, each once: a number stands for a behaviour through all levels of a trie."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.behaviours import Behaviours, Ints, digests, same, starts
from logitkit.automata.ranges import expand


class Growing:
    """An array that is appended to, and doubles its room when it is full."""

    def __init__(self, first: NDArray[Any]) -> None:
        self.size = len(first)
        self.room = np.empty(max(1024, 2 * self.size), first.dtype)
        self.room[: self.size] = first

    def append(self, more: NDArray[Any]) -> None:
        """Put some values behind the others."""
        size = self.size + len(more)
        if size > len(self.room):
            room = np.empty(2 * size, self.room.dtype)
            room[: self.size] = self.room[: self.size]
            self.room = room
        self.room[self.size : size] = more
        self.size = size

    @property
    def values(self) -> NDArray[Any]:
        """What has been appended so far; a view."""
        return self.room[: self.size]


class BehaviourStore:
    """Numbers behaviours as they are met; behaviour 0 leads to death from everywhere.

    Args:
        states: Number of states of the automaton.
        dtype: Integer type of states.
    """

    def __init__(self, states: int, dtype: np.dtype[Any]) -> None:
        self.states = states
        nothing = np.zeros(0, dtype)
        self._default = Growing(np.zeros(1, dtype))
        self._start = Growing(np.zeros(2, np.int64))
        self._source = Growing(nothing)
        self._target = Growing(nothing)
        self._number: dict[object, int] = {}
        self._exact = False
        self._number[self._keys(self.table)[0]] = 0

    def __len__(self) -> int:
        return self._default.size

    @property
    def table(self) -> Behaviours:
        """All behaviours so far; views that later additions may leave behind."""
        return Behaviours(self._default.values, self._start.values, self._source.values, self._target.values)

    def add(self, met: Behaviours) -> Ints:
        """Return the numbers of some behaviours; those not met before get new ones."""
        keys = self._keys(met)
        known = len(self)
        numbers = np.empty(len(met), np.int64)
        fresh: list[int] = []
        for i, key in enumerate(keys):
            number = self._number.get(key)
            if number is None:
                number = self._number[key] = known + len(fresh)
                fresh.append(i)
            numbers[i] = number
        if fresh:
            self._append(met if len(fresh) == len(met) else met.take(np.array(fresh)))
        if not self._exact and len(fresh) < len(met) and not self._holds(met, numbers):
            # Two different behaviours have one hash. Never seen but in the test that makes it happen; from here on, and for
            # what has been stored already, compare whole contents.
            self._forget(known)
            return self.add(met)
        return numbers

    def _keys(self, table: Behaviours) -> list[Any]:
        if not self._exact:
            hashes: list[int] = digests(table, self.states).tolist()
            return hashes
        rows = [slice(a, b) for a, b in zip(table.start[:-1].tolist(), table.start[1:].tolist(), strict=True)]
        return [
            (int(d), table.source[row].astype(np.int64).tobytes(), table.target[row].astype(np.int64).tobytes())
            for d, row in zip(table.default, rows, strict=True)
        ]

    def _append(self, fresh: Behaviours) -> None:
        begin = self._source.size
        self._default.append(fresh.default)
        self._start.append(fresh.start[1:] + begin)
        self._source.append(fresh.source)
        self._target.append(fresh.target)

    def _holds(self, met: Behaviours, numbers: Ints) -> bool:
        """Whether every behaviour equals the stored one whose number it got."""
        return same(met, np.arange(len(met)), self.table, numbers)

    def _forget(self, known: int) -> None:
        kept = self.table.take(np.arange(known))
        self._default, self._start = Growing(kept.default), Growing(kept.start)
        self._source, self._target = Growing(kept.source), Growing(kept.target)
        self._exact = True
        self._number = {key: i for i, key in enumerate(self._keys(kept))}

    def take(self, which: Ints) -> Behaviours:
        """Return some of the behaviours, in that order."""
        table = self.table
        count = table.start[which + 1] - table.start[which]
        place, _ = expand(table.start[which], count)
        return Behaviours(table.default[which], starts(count), table.source[place], table.target[place])
