"""The behaviours of the ends of tokens that have been met, each once, and what is looked up on the way from one to the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.behaviours import Behaviours, Ints, contents, starts
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.sorting import stable_order, which_of
from logitkit.compiler.tokens.behaviour_store import Growing
from logitkit.compiler.tokens.outcomes import Outcomes
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["Index", "SuffixStore"]


class SuffixStore:
    """Numbers behaviours as they are met; behaviour 0 leads to death from everywhere.

    Args:
        outcomes: What their targets stand for.
        width: Number of byte classes.
        limits: Bound on the work.
        work: The steps that were counted before.
    """

    def __init__(self, outcomes: Outcomes, width: int, limits: Limits, work: int) -> None:
        self.outcomes = outcomes
        self.width = width
        self.limits = limits
        self.work = work
        none = np.zeros(0, np.int32)
        self._default = Growing(np.zeros(1, np.int32))
        self._start = Growing(np.zeros(2, np.int64))
        self._source = Growing(none)
        self._target = Growing(none)
        self._number: dict[tuple[int, bytes], int] = {(DEAD, b""): 0}

    def __len__(self) -> int:
        return self._default.size

    @property
    def table(self) -> Behaviours:
        """All behaviours so far; views that later additions may leave behind."""
        return Behaviours(self._default.values, self._start.values, self._source.values, self._target.values)

    def _called(self, frame: Ints, inside: Ints) -> Ints:
        """Return the outcomes of brackets that push frames, each with an outcome behind it."""
        several = 1 + int(inside.max(initial=0))
        pairs, inverse = which_of(frame * np.int64(several) + inside)
        made = [self.outcomes.called(*divmod(pair, several)) for pair in pairs.tolist()]
        return np.array(made, np.int64)[inverse]

    def _add(self, met: Behaviours, steps: int) -> Ints:
        """Return the numbers of some behaviours that took some steps to find; those not met before get new ones."""
        self.work += len(met) + steps
        self.limits.check_work(self.work)
        numbers = np.zeros(len(met), np.int64)
        busy = np.flatnonzero(met.start[1:] > met.start[:-1])
        met = Behaviours(met.default[busy], np.append(met.start[busy], met.start[-1]), met.source, met.target)
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
            new = met if len(fresh) == len(met) else met.take(np.array(fresh))
            begin = self._source.size
            self._default.append(new.default)
            self._start.append(new.start[1:] + begin)
            self._source.append(new.source)
            self._target.append(new.target)
        return numbers


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
