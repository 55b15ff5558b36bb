"""The columns of the ends of tokens in a pushdown automaton that looks at a byte before it reads it.

As in `suffix_columns`, the column of a byte and a text after it follows from the byte's class and the text's column,
shorter ends first. But here a state may pop a frame and then look at the same byte again: what the text does there depends on
what the *same* text does in another state.

By hand, with the automaton of `pushdown_dfa`: what does `)+` do in `item read`? It pops F and leads to `after F`, where `)` leads
to `item read`, and `+` from there to `start`. So in `after F` the text leads to `start`, and in `item read` it pops, and leads to
`start` after F. The first has to be known before the second.

An *end* is what several states do alike when they pop: for each frame, the state after it. For each symbol, the ends get levels.
An end has level 0 if its frames lead only to states that read the symbol, or in which it is illegal; otherwise its level is above
those of the ends that it leads to. Levels are worked out in their order. Some ends lead back to themselves, as where one `z`
pops any number of frames. They have no level, and are worked out last, together: their suffixes get numbers before their content
is known.

If the automaton has several actions for a symbol, so have its texts: a column then lists a state several times. A pop that
leads to several actions after a frame is several pops, the first with the first action after each frame, and so on.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep
from logitkit.compiler.bytes.sorting import which_of
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.suffix_store import Index, SuffixStore
from logitkit.compiler.tokens.lookahead.cyclic_ends import CYCLIC, levels_of, ways_of, widths_of
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["LookaheadSuffixes"]

# No frame is pushed.
NO_MOVE = -1

# How many moves of states are followed in the time in which one exception is traced back.
FORWARD = 3

# The size of the table in which the actions of texts are looked up.
DENSE = 2**22

# The cost of finding one exception, and of working out one pop.
EXCEPTION_STEPS, POP_STEPS = 2, 8

# The cost of an exception besides, if a state may have several actions: equal ones are found by sorting.
SEVERAL_STEPS = 4


class LookaheadSuffixes(SuffixStore):
    """The columns of the ends of tokens.

    Args:
        dfa: The automaton.
        limits: Bound on the work.
    """

    def __init__(self, dfa: PushdownDfa, limits: Limits) -> None:
        states, width = dfa.step.shape
        super().__init__(
            ActionNumbering(Targets(states + dfa.frames, dfa.frames), limits), width, limits, dfa.step.size // 4
        )
        limits.check_work(self.work)
        self.dfa = dfa
        symbol, source = np.nonzero(dfa.step.T)
        does = dfa.step.T[symbol, source].astype(np.int64)
        # Whether a token may have several actions in a state.
        self.several = len(dfa.further) > 0
        source, symbol, does = (np.append(a, b) for a, b in zip((source, symbol, does), dfa.further.T, strict=True))
        reads, pushes, pops = does > DEAD, PushdownStep.is_push(does), does == POP
        self._from = Index(symbol[reads] * states + does[reads], width * states, source[reads])
        following = reads | pushes
        move = PushdownStep.move(does[pushes])
        after, moves = does.copy(), np.full(len(does), NO_MOVE)
        after[pushes], moves[pushes] = dfa.target[move], move
        self._following = Index(symbol[following], width, source[following], after[following], moves[following])
        self._movers = Index(symbol[pushes] * states + dfa.target[move], width * states, source[pushes], move)
        end_of, self.after_end = _ends(dfa)
        self.ends = len(self.after_end)
        end, frame = np.nonzero(self.after_end)
        after = self.after_end[end, frame]
        self._before = Index(after, states, end, frame)
        popping = pops & (end_of[source] >= 0)
        at = symbol[popping] * self.ends + end_of[source[popping]]
        self._poppers = Index(at, width * self.ends, source[popping])
        self._pops = np.bincount(at, minlength=width * self.ends) > 0
        # Which ends lead to which with each symbol, and through which frame.
        may_pop = np.zeros(dfa.step.shape, bool)
        may_pop[source[pops], symbol[pops]] = True
        symbol, pair = np.nonzero(may_pop[after].T & (end_of[after] >= 0))
        edge_from, edge_to = symbol * self.ends + end[pair], symbol * self.ends + end_of[after[pair]]
        self.work += len(symbol) // 4
        limits.check_work(self.work)
        self._level = levels_of(edge_from, edge_to, width * self.ends)
        self._inner = Index(edge_from, width * self.ends, edge_to % max(self.ends, 1), frame[pair])

    def of_bytes(self) -> Ints:
        """Return the number of the column of every symbol: of bytes, special tokens, and the end of the text."""
        states = np.arange(FINISHED, self.dfa.states)
        owner = np.repeat(np.arange(self.width), len(states))
        everywhere = np.tile(states, self.width)
        symbols = np.arange(self.width)
        return self._before_text(*self._read(owner, everywhere, everywhere, symbols), symbols)

    def then_byte(self, which: Ints, symbol: Ints) -> Ints:
        """Return the numbers of the columns `which`, each with a byte of the class `symbol` before it."""
        table = self.table
        count = table.start[which + 1] - table.start[which]
        self.limits.check_work(self.work + EXCEPTION_STEPS * int(count.sum()) // 4)
        forward = self._following.counts[symbol]
        if self.several or forward.sum() > FORWARD * count.sum():
            place, owner = expand(table.start[which], count)
            return self._before_text(*self._read(owner, table.source[place], table.target[place], symbol), symbol)
        parts = []
        each = max(1, DENSE // self.dfa.states)
        for first in range(0, len(which), each):
            part = slice(first, first + each)
            owner, source, target = self._read_forward(which[part], symbol[part])
            parts.append((owner + first, source, target))
        owner, source, target = (np.concatenate(column) for column in zip(*parts, strict=True))
        return self._before_text(owner, source, target, symbol)

    def _read_forward(self, which: Ints, symbol: Ints) -> tuple[Ints, Ints, Ints]:
        """Return what states do that read the symbol before each of some columns: index, state, action; in order."""
        table = self.table
        distinct, row = which_of(which)
        place, owner = expand(table.start[distinct], table.start[distinct + 1] - table.start[distinct])
        action = np.zeros(len(distinct) * self.dfa.states, np.int32)
        action[owner * self.dfa.states + table.source[place]] = table.target[place]
        owner, (source, after, move) = self._following.under(symbol)
        after += (row * self.dfa.states)[owner]
        does = action.take(after)
        pushes = np.flatnonzero((move != NO_MOVE) & (does != DEAD))
        does[pushes] = self._moved(move[pushes], does[pushes])
        live = np.flatnonzero(does)
        return owner[live], source[live], does[live]

    def _read(self, owner: Ints, at: Ints, does: Ints, symbol: Ints) -> tuple[Ints, Ints, Ints]:
        """Return what states do that read the symbol before each of some columns: column, state, action.

        Args:
            owner: Which column each exception is of.
            at: The state that it begins in.
            does: Its action.
            symbol: The symbol before each column.
        """
        key = symbol[owner] * np.int64(self.dfa.states) + at
        found, (source,) = self._from.under(key)
        owners, sources, targets = [owner[found]], [source], [does[found].astype(np.int64)]
        found, (source, move) = self._movers.under(key)
        if len(found):
            owners.append(owner[found])
            sources.append(source)
            targets.append(self._moved(move, does[found]))
        owner, source, target = np.concatenate(owners), np.concatenate(sources), np.concatenate(targets)
        live = target != DEAD
        return owner[live], source[live], target[live]

    def _before_text(self, owner: Ints, source: Ints, target: Ints, symbol: Ints) -> Ints:
        """Return the numbers of columns that begin with some symbols, given what states do that read these."""
        parts = [(owner, source, target)]
        if self.ends:
            self._add_pops(parts, symbol)
        owner, source, target = (np.concatenate(column) for column in zip(*parts, strict=True))
        if self.several:
            self.work += SEVERAL_STEPS * len(owner)
            self.limits.check_work(self.work)
            owner, source, target = np.unique(np.stack([owner, source, target]), axis=1)
        key = owner * np.int64(self.dfa.states) + source
        if (key[1:] < key[:-1]).any():
            # A few ascending runs: these a stable sort merges.
            order = np.argsort(key, kind="stable")
            owner, source, target = owner[order], source[order], target[order]
        source, target = source.astype(np.int32), target.astype(np.int32)
        start = starts(np.bincount(owner, minlength=len(symbol)))
        met = TransitionColumns(np.zeros(len(symbol), np.int32), start, source, target)
        return self._numbers(met, EXCEPTION_STEPS * len(source))

    def _moved(self, move: Ints, inside: Ints) -> Ints:
        """Return the actions of moves that push frames, each with an action after it."""
        several = 1 + int(inside.max(initial=0))
        pairs, inverse = which_of(move * np.int64(several) + inside)
        made = []
        for pair in pairs.tolist():
            which, does = divmod(pair, several)
            for frame in reversed(self.dfa.pushed[which]):
                does = does and self.actions.called(frame, does)
            made.append(does)
        return np.array(made, np.int64)[inverse]

    def _add_pops(self, parts: list[tuple[Ints, Ints, Ints]], symbol: Ints) -> None:
        """Add the exceptions of states that pop a frame first to those of states that read the symbol."""
        waiting = [self._poppable(*parts[0], symbol)]
        while True:
            owner, end, frame, does, level = (np.concatenate(column) for column in zip(*waiting, strict=True))
            least = int(level.min(initial=CYCLIC))
            if least == CYCLIC:
                break
            now = level == least
            popped = self._popped(owner[now], end[now], frame[now], does[now], symbol)
            parts.append(popped)
            later = ~now
            waiting = [(owner[later], end[later], frame[later], does[later], level[later])]
            waiting.append(self._poppable(*popped, symbol))
        if len(owner):
            parts.append(self._popped_in_cycles(owner, end, frame, does, symbol))

    def _poppable(self, owner: Ints, at: Ints, does: Ints, symbol: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return the pops that lead to some states: column, end, frame, action after it, level of the end."""
        found, (end, frame) = self._before.under(at)
        at = symbol[owner[found]] * self.ends + end
        pops = self._pops[at]
        return owner[found][pops], end[pops], frame[pops], does[found][pops], self._level[at[pops]]

    def _popped(self, owner: Ints, end: Ints, frame: Ints, does: Ints, symbol: Ints) -> tuple[Ints, Ints, Ints]:
        """Return what states do that pop: column, state, action."""
        order = np.lexsort((frame, end, owner))
        owner, end, frame, does = owner[order], end[order], frame[order], does[order]
        first = np.flatnonzero(np.append(True, (owner[1:] != owner[:-1]) | (end[1:] != end[:-1]))[: len(owner)])
        bounds = [*first.tolist(), len(owner)]
        self.work += POP_STEPS * len(first)
        self.limits.check_work(self.work)
        pairs = list(zip(frame.tolist(), does.tolist(), strict=True))
        if not self.several:
            pops = [self.actions.pop(tuple(pairs[a:b])) for a, b in pairwise(bounds)]
            return self._spread(owner[first], end[first], np.array(pops, np.int64), symbol)
        made = [(a, self.actions.pop(way)) for a, b in pairwise(bounds) for way in ways_of(pairs[a:b])]
        at, found = np.array(made, np.int64).reshape(-1, 2).T
        return self._spread(owner[at], end[at], found, symbol)

    def _spread(self, owner: Ints, end: Ints, pop: Ints, symbol: Ints) -> tuple[Ints, Ints, Ints]:
        """Give the actions of ends to all states that have them."""
        found, (source,) = self._poppers.under(symbol[owner] * np.int64(self.ends) + end)
        return owner[found], source, pop[found]

    def _popped_in_cycles(
        self, owner: Ints, end: Ints, frame: Ints, does: Ints, symbol: Ints
    ) -> tuple[Ints, Ints, Ints]:
        """Return what states do whose ends lead back to themselves, given what happens where the cycles are left."""
        known: dict[int, dict[int, dict[tuple[int, int], None]]] = {}
        for one, e, f, d in zip(owner.tolist(), end.tolist(), frame.tolist(), does.tolist(), strict=True):
            known.setdefault(one, {}).setdefault(e, {})[f, d] = None
        owners, ends, pops = [], [], []
        for one, outer in known.items():
            # All ends of the cycles that the symbol can leave; which of them lead to others, through which frames.
            members = np.flatnonzero(self._level[symbol[one] * self.ends :][: self.ends] == CYCLIC)
            self.work += POP_STEPS * len(members)
            self.limits.check_work(self.work)
            found, (to, through) = self._inner.under(symbol[one] * np.int64(self.ends) + members)
            edges = list(zip(members[found].tolist(), through.tolist(), to.tolist(), strict=True))
            alive = set(outer)
            before: dict[int, list[int]] = {}
            for source, _, target in edges:
                before.setdefault(target, []).append(source)
            todo = list(alive)
            while todo:
                fresh = set(before.get(todo.pop(), ())) - alive
                alive |= fresh
                todo.extend(fresh)
            inner = [edge for edge in edges if edge[0] in alive and edge[2] in alive]
            width = widths_of({e: [f for f, _ in outer.get(e, ())] for e in alive}, inner)
            place = {way: i for i, way in enumerate((e, j) for e in sorted(alive) for j in range(width[e]))}
            after: dict[int, list[tuple[int, int]]] = {e: [*outer.get(e, ())] for e in alive}
            for source, f, target in inner:
                after[source] += [(f, Targets.later(place[target, j])) for j in range(width[target])]
            ways = [way for e in sorted(alive) for way in ways_of(after[e])]
            made = self.actions.pop_together(tuple(ways))
            owners += [one] * len(place)
            ends += [e for e, _ in place]
            pops += made
        return self._spread(np.array(owners), np.array(ends), np.array(pops, np.int64), symbol)


def _ends(dfa: PushdownDfa) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the end of each state, -1 if it pops nothing, and [E, F] the state after each end and frame."""
    end_of = np.full(dfa.states, -1)
    state, frame, after = dfa.return_state.T if len(dfa.return_state) else np.zeros((3, 0), np.int64)
    live = after != DEAD
    state, frame, after = state[live], frame[live], after[live]
    first = np.flatnonzero(np.append(True, state[1:] != state[:-1])[: len(state)])
    bounds = [*first.tolist(), len(state)]
    number: dict[bytes, int] = {}
    rows: list[NDArray[np.int64]] = []
    for a, b in pairwise(bounds):
        end = number.setdefault(frame[a:b].tobytes() + after[a:b].tobytes(), len(number))
        end_of[state[a]] = end
        if end == len(rows):
            row = np.zeros(dfa.frames, np.int64)
            row[frame[a:b]] = after[a:b]
            rows.append(row)
    return end_of, np.array(rows, np.int64).reshape(len(rows), dfa.frames)
