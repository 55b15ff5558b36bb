"""The columns of the ends of tokens in every state of an automaton with a stack, shorter ends first.

`token_classes` finds the column of a text and a byte after it from the column of the text. Here, the byte stands before the text.
In this order no stack is needed: where the byte closes a bracket, the text after it already has a column, which says what it does
after each frame.

The column of a byte and a text after it depends only on the byte's class and the text's column:

1. A state that reads the byte does what the state after the byte does with the text. If the byte pushes frames, these are on
   the stack then.
2. A state that reads the byte and then pops a frame does, for each frame, what the state after the frame does with the text.
3. A state that looks at the byte and pops a frame first does, for each frame, what the state after the frame does with the byte
   and the text. That state may pop again. So ends are done in levels: first the ends whose frames lead only to states that read
   the byte, then those whose frames lead to ends of the first level, and so on. Ends that lead back to themselves come last, a
   cycle at once.

By hand, for nested lists such as `[[],[]]` and the token `],`: the column of `,` leads from state 5, after a value in a list, to
state 6. The byte `]` closes the list in states 4 and 5. After the frame of an inner list comes state 5, in which `,` leads to
6. So in states 4 and 5, `],` pops a frame and then leads to state 6, if the frame is that of an inner list.

Invariants: equal columns have equal numbers. Column 0 is dead everywhere.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.bytes.sorting import Index, which_of
from logitkit.compiler.bytes.stack_moves import NO_MOVE, StackMoves
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.column_store import ColumnTable
from logitkit.compiler.tokens.effects.cyclic_ends import CYCLIC, levels_of, ways_around, ways_of
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["SuffixColumns"]

# This many moves of states are followed in the time in which one exception is traced back.
FORWARD = 3

# The most entries of the table in which the actions of texts are looked up.
DENSE = 2**22

# The cost of finding one exception, of finding one action that pops, and of pushing one frame before an action.
EXCEPTION_STEPS, POP_STEPS, PUSH_STEPS = 2, 8, 2

# The further cost of an exception if a state may have several actions, because equal ones are then found by sorting.
SEVERAL_STEPS = 4


class Exceptions(NamedTuple):
    """The entries of some columns that are not dead: [N] each.

    Args:
        owner: The index of the column.
        state: The state.
        action: The action in this state.
    """

    owner: Ints
    state: Ints
    action: Ints

    @classmethod
    def joined(cls, parts: list[Exceptions]) -> Exceptions:
        """Put several lists after one another."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))


class SuffixEnding(NamedTuple):
    """The entries of some columns after ends: the end pops a frame, and an action follows. [N] each.

    Args:
        owner: The index of the column.
        end: The end.
        frame: The frame.
        action: The action after the frame.
        level: How many further ends may follow at most; `CYCLIC` if there is no bound.
    """

    owner: Ints
    end: Ints
    frame: Ints
    action: Ints
    level: Ints

    @classmethod
    def joined(cls, parts: list[SuffixEnding]) -> SuffixEnding:
        """Put several lists after one another."""
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def take(self, which: NDArray[np.bool_] | Ints) -> SuffixEnding:
        """Return some of them."""
        return SuffixEnding(*(column[which] for column in self))


class SuffixColumns(ColumnTable):
    """The columns of the ends of tokens, which can be continued by a byte before them.

    Args:
        moves: The automaton.
        limits: Bound on the work.
    """

    def __init__(self, moves: StackMoves, limits: Limits) -> None:
        super().__init__(np.int32, limits, moves.states * moves.symbols // 4)
        limits.check_work(2 * self.work)
        self.moves, self.width, self.ends = moves, moves.symbols, len(moves.after_end)
        targets = Targets(moves.states + moves.frames, moves.frames)
        self.actions = ActionNumbering(targets, limits, moves.uncounted)
        reads, looks, closes = moves.reads, moves.looks, moves.closes
        self._into = Index(
            reads.symbol * moves.states + reads.target, self.width * moves.states, reads.source, reads.move
        )
        self._following = Index(reads.symbol, self.width, reads.source, reads.target, reads.move)
        end, frame = np.nonzero(moves.after_end)
        after = moves.after_end[end, frame]
        self._before = Index(after, moves.states, end, frame)
        self._closers = Index(closes.symbol * self.ends + closes.end, self.width * self.ends, closes.source)
        self._lookers = Index(looks.symbol * self.ends + looks.end, self.width * self.ends, looks.source)
        self._pushes = np.array([len(frames) for frames in moves.pushed])
        self._closes = np.bincount(closes.symbol, minlength=self.width) > 0
        if len(looks.source):
            self._order_ends(end, frame, after)

    def _order_ends(self, end: Ints, frame: Ints, after: Ints) -> None:
        """Find which ends lead to other ends before a symbol is read, and through which frame."""
        looks = self.moves.looks
        end_of = np.full(self.moves.states, -1)
        end_of[looks.source] = looks.end
        may_look = np.zeros((self.moves.states, self.width), bool)
        may_look[looks.source, looks.symbol] = True
        symbol, pair = np.nonzero(may_look[after].T)
        edge_from, edge_to = symbol * self.ends + end[pair], symbol * self.ends + end_of[after[pair]]
        self.charge(len(symbol) // 4)
        self._level = levels_of(edge_from, edge_to, self.width * self.ends)
        self._inner = Index(edge_from, self.width * self.ends, edge_to % self.ends, frame[pair])

    def of_bytes(self) -> Ints:
        """Return the number of the column of every symbol: classes of bytes, special tokens and the end of the text."""
        states, symbols = np.arange(FINISHED, self.moves.states), np.arange(self.width)
        everywhere = np.tile(states, self.width)
        alone = Exceptions(np.repeat(symbols, len(states)), everywhere, everywhere)
        return self._before_text([self._read(alone, symbols), self._closed(alone, symbols)], symbols)

    def then_byte(self, which: Ints, symbol: Ints) -> Ints:
        """Return the numbers of the columns `which`, each with a byte of the class `symbol` before it."""
        table = self.table
        count = table.start[which + 1] - table.start[which]
        self.limits.check_work(self.work + EXCEPTION_STEPS * int(count.sum()) // 4)
        forward = not self.moves.several and self._following.counts[symbol].sum() <= FORWARD * count.sum()
        # The columns whose exceptions are traced back. If moves are followed forward, only symbols that close brackets need this.
        traced = np.flatnonzero(self._closes[symbol]) if forward else np.arange(len(which))
        place, owner = expand(table.start[which[traced]], count[traced])
        text = Exceptions(traced[owner], table.source[place], table.target[place])
        read = self._read_forward(which, symbol) if forward else self._read(text, symbol)
        return self._before_text([read, self._closed(text, symbol)], symbol)

    def _read_forward(self, which: Ints, symbol: Ints) -> Exceptions:
        """Return the entries of states that read the symbol before each column, by following the moves of all states."""
        parts = []
        each = max(1, DENSE // self.moves.states)
        for first in range(0, len(which), each):
            action, begin = self._everywhere(which[first : first + each])
            owner, (source, after, move) = self._following.under(symbol[first : first + each])
            does = action.take(after + begin[owner]).astype(np.int64)
            parts.append(self._alive(owner + first, source, does, move))
        return Exceptions.joined(parts)

    def _everywhere(self, which: Ints) -> tuple[Ints, Ints]:
        """Return the actions of some columns in all states, one column after another, and where each column begins."""
        table, states = self.table, self.moves.states
        distinct, row = which_of(which)
        place, owner = expand(table.start[distinct], table.start[distinct + 1] - table.start[distinct])
        found = np.zeros(len(distinct) * states, np.int32)
        found[owner * states + table.source[place]] = table.target[place]
        return found, row * states

    def _read(self, text: Exceptions, symbol: Ints) -> Exceptions:
        """Return the entries of states that read the symbol before each column, by tracing back the column's exceptions."""
        found, (source, move) = self._into.under(symbol[text.owner] * np.int64(self.moves.states) + text.state)
        return self._alive(text.owner[found], source, text.action[found].astype(np.int64), move)

    def _alive(self, owner: Ints, source: Ints, does: Ints, move: Ints) -> Exceptions:
        """Push the frames of moves before actions; leave out dead actions."""
        pushes = np.flatnonzero((move != NO_MOVE) & (does != DEAD))
        does[pushes] = self._moved(move[pushes], does[pushes])
        live = np.flatnonzero(does)
        return Exceptions(owner[live], source[live], does[live])

    def _moved(self, move: Ints, inside: Ints) -> Ints:
        """Return the actions of moves that push frames, given the action after each move."""
        several = 1 + int(inside.max(initial=0))
        pairs, inverse = which_of(move * np.int64(several) + inside)
        self.charge(PUSH_STEPS * int(self._pushes[pairs // several].sum()))
        made = []
        for pair in pairs.tolist():
            which, does = divmod(pair, several)
            for frame in reversed(self.moves.pushed[which]):
                does = does and self.actions.called(frame, does)
            made.append(does)
        return np.array(made, np.int64)[inverse]

    def _before_text(self, parts: list[Exceptions], symbol: Ints) -> Ints:
        """Return the numbers of columns that begin with some symbols, given the entries of states that read these symbols."""
        met = Exceptions.joined(parts)
        if len(self.moves.looks.source):
            met = Exceptions.joined([met, *self._looked(met, symbol)])
        if self.moves.several:
            self.charge(SEVERAL_STEPS * len(met.owner))
            met = Exceptions(*np.unique(np.stack(met), axis=1))
        key = met.owner * np.int64(self.moves.states) + met.state
        if (key[1:] < key[:-1]).any():
            # The entries are a few ascending runs, which a stable sort merges.
            order = np.argsort(key, kind="stable")
            met = Exceptions(*(column[order] for column in met))
        source, target = met.state.astype(np.int32), met.action.astype(np.int32)
        start = starts(np.bincount(met.owner, minlength=len(symbol)))
        found = TransitionColumns(np.zeros(len(symbol), np.int32), start, source, target)
        return self._numbers(found, EXCEPTION_STEPS * len(source))

    def _closed(self, text: Exceptions, symbol: Ints) -> Exceptions:
        """Return the entries of states that read the symbol before each column and then pop a frame."""
        ending = self._ending(text, symbol, self._closers)
        return self._popped(ending, symbol, self._closers)

    def _ending(self, met: Exceptions, symbol: Ints, states: Index) -> SuffixEnding:
        """Return the ends and frames after which some entries follow, for ends that the symbol reaches in one of `states`."""
        found, (end, frame) = self._before.under(met.state)
        at = symbol[met.owner[found]] * self.ends + end
        level = self._level[at] if states is self._lookers else np.zeros_like(at)
        every = SuffixEnding(met.owner[found], end, frame, met.action[found], level)
        return every.take(states.counts[at] > 0)

    def _looked(self, read: Exceptions, symbol: Ints) -> list[Exceptions]:
        """Return the entries of states that pop a frame and look at the symbol again, given those of states that read it."""
        parts: list[Exceptions] = []
        waiting = self._ending(read, symbol, self._lookers)
        while (least := int(waiting.level.min(initial=CYCLIC))) != CYCLIC:
            now = waiting.level == least
            parts.append(self._popped(waiting.take(now), symbol, self._lookers))
            fresh = self._ending(parts[-1], symbol, self._lookers)
            waiting = SuffixEnding.joined([waiting.take(~now), fresh])
        if len(waiting.owner):
            parts.append(self._popped_in_cycles(waiting, symbol))
        return parts

    def _popped(self, ending: SuffixEnding, symbol: Ints, states: Index) -> Exceptions:
        """Return the entries of states that pop. All frames of a column and an end together make one action, or a few."""
        owner, end, frame, does, _ = ending.take(np.lexsort((ending.frame, ending.end, ending.owner)))
        first = np.flatnonzero(np.append(True, (owner[1:] != owner[:-1]) | (end[1:] != end[:-1]))[: len(owner)])
        self.charge(POP_STEPS * len(first))
        pairs = list(zip(frame.tolist(), does.tolist(), strict=True))
        at, made = first, []
        if self.moves.several:
            ways = [(a, way) for a, b in pairwise([*first.tolist(), len(owner)]) for way in ways_of(pairs[a:b])]
            at = np.array([a for a, _ in ways], np.int64)
            made = [self.actions.pop(way) for _, way in ways]
        else:
            made = [self.actions.pop(tuple(pairs[a:b])) for a, b in pairwise([*first.tolist(), len(owner)])]
        return self._spread(owner[at], end[at], np.array(made, np.int64), symbol, states)

    def _spread(self, owner: Ints, end: Ints, pop: Ints, symbol: Ints, states: Index) -> Exceptions:
        """Give the actions of ends to all states that have them."""
        found, (source,) = states.under(symbol[owner] * np.int64(self.ends) + end)
        return Exceptions(owner[found], source, pop[found])

    def _popped_in_cycles(self, ending: SuffixEnding, symbol: Ints) -> Exceptions:
        """Return the entries of states whose ends lead back to themselves, given the actions after which the cycles are left."""
        known: dict[int, dict[int, dict[tuple[int, int], None]]] = {}
        for one, e, *way in zip(*(column.tolist() for column in ending[:4]), strict=True):
            known.setdefault(one, {}).setdefault(e, {})[way[0], way[1]] = None
        owners: list[int] = []
        ends: list[int] = []
        pops: list[int] = []
        for one, outer in known.items():
            # All ends in cycles with this symbol, and the moves between them.
            members = np.flatnonzero(self._level[symbol[one] * self.ends :][: self.ends] == CYCLIC)
            self.charge(POP_STEPS * len(members))
            found, (to, through) = self._inner.under(symbol[one] * np.int64(self.ends) + members)
            edges = list(zip(members[found].tolist(), through.tolist(), to.tolist(), strict=True))
            around, ways = ways_around({e: [*pairs] for e, pairs in outer.items()}, edges)
            owners += [one] * len(around)
            ends += around
            pops += self.actions.pop_together(tuple(ways))
        return self._spread(np.array(owners), np.array(ends), np.array(pops, np.int64), symbol, self._lookers)
