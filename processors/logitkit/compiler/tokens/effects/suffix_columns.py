"""The columns of the ends of tokens in every state of an automaton that nests, shorter ends first.

The column of a byte and a text after it depends only on the byte's class and the text's column, as that of a text and a
byte after it does (`token_classes`). This way round no stack is needed on the way: where a bracket closes one that was open
before, the end of the token after it has a column already.
"""

from __future__ import annotations

import numpy as np

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.suffix_store import Index, SuffixStore
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["SuffixColumns"]

# The cost of finding one exception, in steps.
EXCEPTION_STEPS = 4
# Columns of more exceptions are worked out one by one, for all states at once: this many exceptions, or states, take as long
# as one other step.
LONG = 256
EXCEPTIONS_A_STEP, STATES_A_STEP = 12, 48
# The least cost of each of those.
LONG_STEPS = 20
# Two classes of bytes are alike if at most one state in this many tells them apart.
ALIKE = 16


class SuffixColumns(SuffixStore):
    """The columns of the ends of tokens.

    Args:
        dfa: The automaton.
        limits: Bound on the work.
        work: The steps that were counted before.
    """

    def __init__(self, dfa: NestedDfa, limits: Limits, work: int) -> None:
        uncounted = frozenset(np.flatnonzero(dfa.uncounted).tolist())
        targets = Targets(dfa.states + dfa.frames, dfa.frames)
        super().__init__(ActionNumbering(targets, limits, uncounted), dfa.step.shape[1], limits, work)
        self.dfa = dfa
        states = dfa.states
        symbol, source = np.nonzero(dfa.step.T)
        does = dfa.step.T[symbol, source].astype(np.int64)
        inside, calls, ends = NestedStep.is_state(does), NestedStep.is_call(does), NestedStep.is_end(does)
        self._from = Index(symbol[inside] * states + does[inside], self.width * states, source[inside])
        call = NestedStep.number(does[calls])
        self._callers = Index(
            symbol[calls] * states + dfa.entry[call], self.width * states, source[calls], dfa.frame[call]
        )
        end = NestedStep.number(does[ends])
        self._enders = Index(
            symbol[ends] * len(dfa.return_state) + end, self.width * len(dfa.return_state), source[ends]
        )
        which, frame = np.nonzero(dfa.return_state)
        self._returns = Index(dfa.return_state[which, frame], states, which, frame)
        # Which ends the bytes of each class may be.
        self._ends_of = [np.unique(end[symbol[ends] == c]) for c in range(self.width)]
        self._step = np.ascontiguousarray(dfa.step.T)
        # For each class: an earlier one that most states take for the same, or itself, and the states that do not.
        self._alike: list[tuple[int, Ints]] = []
        nothing = np.zeros(0, np.int64)
        for c, column in enumerate(self._step):
            others = [i for i, (alike, _) in enumerate(self._alike) if alike == i]
            apart = ((i, np.flatnonzero(column != self._step[i])) for i in others)
            self._alike.append(next(((i, few) for i, few in apart if len(few) <= states // ALIKE), (c, nothing)))

    def of_bytes(self) -> Ints:
        """Return the number of the column of every byte class."""
        suffix_targets = np.arange(self.dfa.states)
        suffix_targets[:FIRST_STATE] = DEAD
        return np.array([self._add_one(self._at(suffix_targets, c, column)) for c, column in enumerate(self._step)])

    def then_byte(self, which: Ints, symbol: Ints) -> Ints:
        """Return the numbers of the columns `which`, each with a byte of the class `symbol` before it."""
        table = self.table
        long = table.start[which + 1] - table.start[which] > LONG
        if not long.any():
            return self._add_short(table, which, symbol)
        numbers = np.empty(len(which), np.int64)
        if not long.all():
            numbers[~long] = self._add_short(table, which[~long], symbol[~long])
        numbers[long] = self._one_by_one(which[long].tolist(), symbol[long].tolist())
        return numbers

    def _one_by_one(self, which: list[int], symbol: list[int]) -> list[int]:
        """Return the numbers of some columns, each with a byte of a class before it, at most one class of those alike."""
        found: dict[tuple[int, int], int] = {}
        last = -1
        for one, c in sorted(zip(which, symbol, strict=True)):
            if one != last:
                last, suffix_targets = one, self._everywhere(one)
            alike, differing = self._alike[c]
            if (one, alike) not in found:
                found[one, alike] = self._add_one(self._at(suffix_targets, alike, self._step[alike]))
            if alike != c:
                found[one, c] = self._changed(
                    found[one, alike], differing, self._at(suffix_targets, c, self._step[c, differing])
                )
        return [found[key] for key in zip(which, symbol, strict=True)]

    def _everywhere(self, which: int) -> Ints:
        """Return where a column leads from every state."""
        table = self.table
        own = slice(table.start[which], table.start[which + 1])
        target = np.zeros(self.dfa.states, np.int32)
        target[table.source[own]] = table.target[own]
        return target

    def _at(self, suffix_targets: Ints, symbol: int, does: Ints) -> Ints:
        """Return the actions of states in which a byte of a class does something, given those of the text after it."""
        nests = ~NestedStep.is_state(does)
        if not nests.any():
            return suffix_targets.take(does)
        found = suffix_targets.take(np.where(nests, DEAD, does))
        here = np.flatnonzero(NestedStep.is_call(does))
        call = NestedStep.number(does[here])
        inside = suffix_targets[self.dfa.entry[call]]
        live = inside != DEAD
        found[here[live]] = self._called(self.dfa.frame[call[live]], inside[live].astype(np.int64))
        for end in self._ends_of[symbol].tolist():
            after = suffix_targets[self.dfa.return_state[end]]
            frames = np.flatnonzero(after)
            self.work += len(frames)
            pop = self.actions.pop(tuple(zip(frames.tolist(), after[frames].tolist(), strict=True)))
            found[does == NestedStep.end(end)] = pop
        return found

    def _changed(self, number: int, states: Ints, actions: Ints) -> int:
        """Return the number of a column with other actions in some states."""
        table = self.table
        source = table.source[table.start[number] : table.start[number + 1]]
        target = table.target[table.start[number] : table.start[number + 1]]
        place = np.minimum(np.searchsorted(source, states), max(len(source) - 1, 0))
        before = np.where(source[place] == states, target[place], DEAD) if len(source) else np.zeros(len(states))
        self.work += LONG_STEPS + len(states) // EXCEPTIONS_A_STEP
        self.limits.check_work(self.work)
        if np.array_equal(before, actions):
            return number
        changed = self._everywhere(number)
        changed[states] = actions
        return self._add_one(changed)

    def _add_one(self, target: Ints) -> int:
        """Return the number of a column, given where it leads from every state."""
        source = np.flatnonzero(target).astype(np.int32)
        steps = LONG_STEPS + len(target) // STATES_A_STEP + len(source) // EXCEPTIONS_A_STEP
        target = target[source].astype(np.int32)
        met = TransitionColumns(np.zeros(1, np.int32), np.array([0, len(source)]), source, target)
        return int(self._numbers(met, steps)[0])

    def _add_short(self, table: TransitionColumns, which: Ints, symbol: Ints) -> Ints:
        met = self._short(table, which, symbol)
        return self._numbers(met, EXCEPTION_STEPS * len(met.source))

    def _short(self, table: TransitionColumns, which: Ints, symbol: Ints) -> TransitionColumns:
        """Return some columns, each with a byte of a class before it."""
        place, owner = expand(table.start[which], table.start[which + 1] - table.start[which])
        # Most exceptions lead to further ones: if these would be too many, they are not worked out.
        self.limits.check_work(self.work + EXCEPTION_STEPS * len(place) // 2)
        at, does, symbols = table.source[place], table.target[place], symbol[owner]
        key = symbols * np.int64(self.dfa.states) + at
        found, (source,) = self._from.under(key)
        owners, sources, targets = [owner[found]], [source], [does[found]]
        found, (source, frame) = self._callers.under(key)
        if len(found):
            owners.append(owner[found])
            sources.append(source)
            targets.append(self._called(frame, does[found]))
        for column, part in zip((owners, sources, targets), self._popping(owner, at, does, symbol), strict=True):
            column.append(part)
        owner, source, target = (np.concatenate(column) for column in (owners, sources, targets))
        live = target != DEAD
        order = np.argsort(owner[live] * np.int64(self.dfa.states) + source[live], kind="stable")
        owner, source, target = (column[live][order] for column in (owner, source, target))
        return TransitionColumns(
            np.zeros(len(which), np.int32),
            starts(np.bincount(owner, minlength=len(which))),
            source.astype(np.int32),
            target.astype(np.int32),
        )

    def _popping(self, owner: Ints, at: Ints, does: Ints, symbol: Ints) -> tuple[Ints, Ints, Ints]:
        """Return the exceptions that pop a frame first: the column, the state that it begins in, and the action."""
        closes = np.array([len(ends) > 0 for ends in self._ends_of])[symbol]
        mine = closes[owner]
        found, (end, frame) = self._returns.under(at[mine].astype(np.int64))
        owner, does = owner[mine][found], does[mine][found]
        order = np.lexsort((frame, end, owner))
        owner, end, frame, does = owner[order], end[order], frame[order], does[order]
        fresh = np.flatnonzero(np.append(True, (owner[1:] != owner[:-1]) | (end[1:] != end[:-1]))[: len(owner)])
        groups = zip(
            np.split(frame, fresh[1:]) if len(fresh) else (),
            np.split(does, fresh[1:]) if len(fresh) else (),
            strict=True,
        )
        pops = np.array(
            [self.actions.pop(tuple(zip(f.tolist(), d.tolist(), strict=True))) for f, d in groups], np.int64
        )
        owner, end = owner[fresh], end[fresh]
        found, (source,) = self._enders.under(symbol[owner] * np.int64(len(self.dfa.return_state)) + end)
        return owner[found], source, pops[found]
