"""The transition columns of the prefixes of tokens, each stored once and named by a number.

`token_classes` follows the prefixes of all tokens, byte by byte. Thousands of prefixes have equal columns, so it follows numbers.

By hand, for the pattern `[ab]c`: state 2 is the start, state 3 comes after `a` or `b`, and state 4 is the end. The bytes `a`
and `b` have the column 2 -> 3, which is number 1. `c` has the column 3 -> 4, number 2. The prefixes `ac` and `bc` have the
column 2 -> 4, number 3. All others are dead everywhere: that is number 0.

Invariants: equal columns have equal numbers. Column 0 is dead everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, NOT_LISTED
from logitkit.compiler.bytes.transition_columns import (
    Ints,
    Moves,
    TransitionColumns,
    contents,
    of_bytes,
    starts,
    then_byte,
)
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
    """Stores columns, and gives them numbers in the order in which they are met.

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
        """All columns so far, as views. Columns that are added later may be missing in them."""
        return TransitionColumns(self._default.values, self._start.values, self._source.values, self._target.values)

    def charge(self, steps: int) -> None:
        """Count steps that were taken."""
        self.work += steps
        self.limits.check_work(self.work)

    def _numbers(self, met: TransitionColumns, steps: int) -> Ints:
        """Return the numbers of columns, and store those that are new. Finding them took `steps`."""
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


# Columns with more exceptions than `LONG` are stepped one by one, since the time for a call of numpy is small beside that for the
# column. So are up to `FEW` columns.
LONG = 128
FEW = 10

# This many exceptions take as long, and as much memory, as one other step.
EXCEPTIONS_A_STEP = 4


class ColumnStore(ColumnTable):
    """A table of columns that can be continued by one byte.

    Args:
        moves: The automaton.
        limits: Bound on the work.
        work: The steps that were counted before.
        sources: If not all states matter: how many of the first ones do. Only these are listed, and the default is dead.
    """

    def __init__(self, moves: Moves, limits: Limits, work: int, sources: int | None = None) -> None:
        super().__init__(moves.step.dtype, limits, work)
        self.moves = moves
        self.sources = sources

    @property
    def width(self) -> int:
        """Number of byte classes."""
        return len(self.moves.step)

    def of_bytes(self) -> Ints:
        """Return the number of the column of every byte class."""
        return self._add(of_bytes(self.moves) if self.sources is None else self._of_sources(self.sources))

    def _of_sources(self, sources: int) -> TransitionColumns:
        step = self.moves.step
        symbol, source = np.nonzero(step[:, :sources])
        start = starts(np.bincount(symbol, minlength=len(step)))
        return TransitionColumns(
            np.zeros(len(step), step.dtype), start, source.astype(step.dtype), step[symbol, source]
        )

    def then_byte(self, which: Ints, symbol: Ints) -> Ints:
        """Return the numbers of the columns `which`, each followed by a byte of the class `symbol`."""
        table = self.table
        if len(which) <= FEW:
            return np.array(self._one_by_one(which, symbol))
        long = table.start[which + 1] - table.start[which] > LONG
        if not long.any():
            return self._add(then_byte(self.moves, table, which, symbol))
        short = ~long
        numbers = np.empty(len(which), np.int64)
        numbers[short] = self._add(then_byte(self.moves, table, which[short], symbol[short]))
        numbers[long] = self._one_by_one(which[long], symbol[long])
        return numbers

    def _one_by_one(self, which: Ints, symbol: Ints) -> list[int]:
        table, goes_on = self.table, self.moves.goes_on
        rows = self.moves.step if goes_on is None else goes_on
        defaults = self.moves.step[symbol, table.default[which]]
        numbers: list[int] = []
        fresh: list[tuple[int, Ints, Ints]] = []
        for c, a, b, default in zip(
            symbol.tolist(),
            table.start[which].tolist(),
            table.start[which + 1].tolist(),
            defaults.tolist(),
            strict=True,
        ):
            target = rows[c].take(table.target[a:b])
            keep = target != default
            if goes_on is not None:
                keep &= target != NOT_LISTED
            source = table.source[a:b]
            if np.count_nonzero(keep) < b - a:
                # To select from two arrays, indices are faster than a mask.
                (kept,) = keep.nonzero()
                source, target = source.take(kept), target.take(kept)
            self.charge(1 + len(target) // EXCEPTIONS_A_STEP)
            known = len(self._number)
            number = self._number.setdefault((default, source.tobytes() + target.tobytes()), known)
            if number == known:
                fresh.append((default, source, target))
            numbers.append(number)
        if fresh:
            default_of, source_of, target_of = zip(*fresh, strict=True)
            begin = starts(np.array([*map(len, source_of)]))
            new = TransitionColumns(np.array(default_of), begin, np.concatenate(source_of), np.concatenate(target_of))
            self._append(new)
        return numbers

    def _add(self, met: TransitionColumns) -> Ints:
        return self._numbers(met, len(met.source) // EXCEPTIONS_A_STEP)
