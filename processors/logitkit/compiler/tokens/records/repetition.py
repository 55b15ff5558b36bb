"""The automaton of a repeated record, built from the rows of its first copy. A file of an automaton stores only these rows.

By hand, for `([a-z],){2,900}` and the token `a,b,`: in the rows of copy 0, it leads to copy 2. So in copy 10 it leads to copy
12. EOS is legal after 2 to 900 records, so not in the copies 0 and 1.

Invariants: all copies share one rest, which comes after the last copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace

import numpy as np

from logitkit.compiler.bytes.byte_dfa import FINISHED, FIRST_STATE
from logitkit.compiler.bytes.transition_columns import Ints, starts
from logitkit.compiler.tokens.records.record_states import RecordStates
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton

__all__ = ["RepeatedAutomaton", "Repetition"]


@dataclass(frozen=True, eq=False)
class Repetition:
    """The rows of the first copy of a record and of the rest, and how often the record is repeated.

    Args:
        first: The rows of the first copy and of the rest in its place. The first state is the beginning of the copy. Targets are
            those of `RecordStates`.
        size: The number of states of a copy.
        copies: How many copies are different at the end, because a token may reach beyond the last record from them.
        minimum: The minimum number of records.
        maximum: The maximum number of records, at least `copies`.
    """

    first: TokenAutomaton
    size: int
    copies: int
    minimum: int
    maximum: int

    def automaton(self) -> RepeatedAutomaton:
        """Return the automaton of all copies and the rest."""
        first, size = self.first, self.size
        rest = FIRST_STATE + size * self.maximum
        states = rest + first.states - FIRST_STATE - size
        narrow = np.int16 if states < 2**15 else np.int32
        copy, target = self._targets()
        in_rest = copy >= 0
        target = target.astype(narrow)
        start = first.row_start[FIRST_STATE:]
        own = int(start[size])
        owner = np.repeat(np.arange(size), np.diff(start[: size + 1]))
        groups = [*self._groups(copy[:own], target[:own])]
        count = sum(number * len(listed) for _, number, listed in groups)
        # Filled in place, because these tables are large.
        row_class = np.empty(count + len(target) - own, first.row_class.dtype)
        row_target = np.empty(len(row_class), narrow)
        length = np.zeros(states, np.int64)
        at = 0
        for begin, number, listed in groups:
            entries = slice(at, at := at + number * len(listed))
            row_class[entries].reshape(number, len(listed))[:] = first.row_class.take(listed)
            targets = row_target[entries].reshape(number, len(listed))
            shift = np.arange(size * begin, size * (begin + number), size, dtype=narrow)
            np.add(target.take(listed), shift[:, None], out=targets)
            fixed = in_rest.take(listed)
            targets[:, fixed] = target.take(listed[fixed])
            lengths = length[FIRST_STATE + begin * size : FIRST_STATE + (begin + number) * size]
            lengths.reshape(number, size)[:] = np.bincount(owner.take(listed), minlength=size)
        row_class[at:], row_target[at:] = first.row_class[own:], target[own:]
        length[rest:] = np.diff(start[size:])
        accepting = np.zeros(states, bool)
        accepting[FIRST_STATE + size * self.minimum : rest : size] = first.accepting[FIRST_STATE]
        accepting[rest:] = first.accepting[FIRST_STATE + size :]
        tables = {"row_start": starts(length), "row_class": row_class, "row_target": row_target, "accepting": accepting}
        kept = {one.name: getattr(first, one.name) for one in fields(first)}
        return RepeatedAutomaton(**kept | tables, repetition=self)

    def _targets(self) -> tuple[Ints, Ints]:
        """Return for each entry the copy after which it leads to the rest or ends the text, -1 if it stays; and its target."""
        target: Ints = self.first.row_target.astype(np.int32)
        states = RecordStates(self.size, self.first.states - FIRST_STATE - self.size, self.copies)
        copy, in_rest, place = states.places(target)
        # In the automaton, all copies share the rest after the last copy.
        found = FIRST_STATE + self.size * np.where(in_rest, self.maximum, copy) + place
        is_end = target == FINISHED
        after = np.where(is_end, 0, np.where(in_rest, copy, -1))
        return after, np.where(is_end, FINISHED, found)

    def _groups(self, after: Ints, target: Ints) -> Iterator[tuple[int, int, Ints]]:
        """Yield consecutive copies with equal rows: the first of them, their number, and the entries that they keep."""
        whole = self.maximum - self.copies
        early = min(max(self.minimum - self.copies, 0), whole)
        ended = max(min(self.minimum, whole), early)
        yield 0, early, np.flatnonzero(after < 0)
        for copy in (*range(early, ended), -1, *range(whole, self.maximum)):
            if copy < 0:
                yield ended, whole - ended, np.arange(len(after))
                continue
            # The end of the records, in the numbers of the first copy.
            last = FIRST_STATE + self.size * (self.maximum - copy)
            records = copy + after
            ending = (self.minimum <= records) & (records <= self.maximum)
            yield copy, 1, np.flatnonzero(np.where(after < 0, target <= last, ending))


@dataclass(frozen=True, eq=False)
class RepeatedAutomaton(TokenAutomaton):
    """A token automaton that can be built from the rows of one copy of its record.

    Args:
        repetition: The rows that it is built from.
    """

    repetition: Repetition = field(kw_only=True)

    def short(self) -> Repetition:
        """Return the rows from which it is built, with the work that compiling it took."""
        return replace(self.repetition, first=replace(self.repetition.first, work=self.work))
