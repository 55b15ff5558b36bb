"""The automaton of a repeated record, and the rows of one copy, from which it can be built again: files hold only these."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

import numpy as np

from logitkit.compiler.bytes.behaviours import Ints, starts
from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.compiler.tokens.token_automaton import TokenAutomaton

__all__ = ["RepeatedAutomaton", "Repetition"]


@dataclass(frozen=True, eq=False)
class Repetition:
    """What tokens do in the first copy of a record, and how often the record is repeated.

    Args:
        first: The rows of the first copy. The text may end in its first state. Its targets may be in later copies.
        copies: The number of last copies from which a token may reach beyond the last record.
        minimum: The minimum number of records.
        maximum: The maximum number of records, at least `copies`.
    """

    first: TokenAutomaton
    copies: int
    minimum: int
    maximum: int

    def automaton(self) -> RepeatedAutomaton:
        """Return the automaton of all copies."""
        first = self.first
        size, end = self._size, FIRST_STATE + self._size * self.maximum
        narrow = np.int16 if end < 2**15 - 1 else np.int32
        target: Ints = first.row_target.astype(narrow)
        fixed = target < FIRST_STATE
        owner = np.repeat(np.arange(size), np.diff(first.row_start[FIRST_STATE:]))
        groups = [*self._groups()]
        count = sum(number * len(listed) for _, number, listed in groups)
        # Filled in place: these tables are large, and every copy of them counts.
        row_class, row_target = np.empty(count + 1, first.row_class.dtype), np.empty(count + 1, narrow)
        length = np.ones(FIRST_STATE + size * self.maximum + 1, np.int64)
        length[:FIRST_STATE] = 0
        at = 0
        for copy, number, listed in groups:
            entries = slice(at, at := at + number * len(listed))
            states = slice(FIRST_STATE + copy * size, FIRST_STATE + (copy + number) * size)
            row_class[entries].reshape(number, len(listed))[:] = first.row_class.take(listed)
            targets = row_target[entries].reshape(number, len(listed))
            shift = np.arange(size * copy, size * (copy + number), size, dtype=narrow)
            np.add(target.take(listed), shift[:, None], out=targets)
            targets[:, fixed.take(listed)] = target.take(listed[fixed.take(listed)])
            length[states].reshape(number, size)[:] = np.bincount(owner.take(listed), minlength=size)
        row_class[-1], row_target[-1] = first.row_class[self._eos], FINISHED
        accepting = np.zeros(end + 1, bool)
        accepting[FIRST_STATE + size * self.minimum :: size] = True
        tables = {"row_start": starts(length), "row_class": row_class, "row_target": row_target, "accepting": accepting}
        own = {one.name: getattr(first, one.name) for one in fields(first)}
        return RepeatedAutomaton(**own | tables, repetition=self)

    @property
    def _size(self) -> int:
        """Number of states of one copy."""
        return self.first.states - FIRST_STATE

    @property
    def _eos(self) -> int:
        """Where the first state lists EOS, whose class is the last one."""
        return int(self.first.row_start[FIRST_STATE + 1]) - 1

    def _groups(self) -> Iterator[tuple[int, int, Ints]]:
        """Yield consecutive copies with equal rows: the first of them, how many there are, and the entries that they keep."""
        every = np.arange(len(self.first.row_class))
        unended = np.delete(every, self._eos)
        early, whole = min(self.minimum, self.maximum), self.maximum - self.copies
        ended = min(early, whole)
        yield 0, ended, unended
        yield ended, whole - ended, every
        for copy in range(whole, self.maximum):
            listed = unended if copy < early else every
            # In the first copy's numbers: how far it is from this copy to the end.
            last = FIRST_STATE + self._size * (self.maximum - copy)
            yield copy, 1, listed[self.first.row_target.take(listed) <= last]


@dataclass(frozen=True, eq=False)
class RepeatedAutomaton(TokenAutomaton):
    """A token automaton that can be built again from less.

    Args:
        repetition: What it is built from.
    """

    repetition: Repetition = field(kw_only=True)

    def short(self) -> Repetition:
        """Return what it is built from, with the work that compiling it took."""
        return replace(self.repetition, first=replace(self.repetition.first, work=self.work))
