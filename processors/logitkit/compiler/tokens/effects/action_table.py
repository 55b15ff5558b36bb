"""The stack actions of the tokens of a vocabulary as arrays, numbered for the runtime.

While an automaton is compiled, `ActionNumbering` numbers every action that is met. Here, only the actions that tokens can have
get numbers, and each height gets the room that must be left for brackets which the text still has to open. Token suffixes
become classes: a frame has a row in the table of tokens, and this row says what each suffix does after the frame is popped.

By hand, for nested lists such as `[[],[]]` with the states 2 to 6, frame 7 of the outermost list and frame 8 of inner lists: if
the tokens have the classes 1 to 6, suffixes have classes from 7 on, and the suffix `,` has class 8. The token `],` is an action
that pops a frame, with `rest` 8. Row 8 lists class 8 with an action that leads to state 6. Row 7 does not list class 8, so it
is dead after the outermost list.

Invariants: targets are dense: states, then frames, then actions. Counted moves come after all other actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.sorting import which_of
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, starts
from logitkit.compiler.tokens.effects.action_numbering import (
    NOTHING_COUNTED,
    ActionNumbering,
    CountedMoves,
    StackAction,
)

__all__ = ["ActionTable"]

# Up to this many numbers are looked up one by one, which is faster than with arrays.
FEW = 64

# More frames than any stack has.
DEEPEST = 2**20


@dataclass(frozen=True, eq=False, slots=True)
class ActionTable:
    """The actions of tokens as arrays, and the columns of all classes: first those of tokens, then those of token suffixes.

    Args:
        transitions: The target of each class in each state (`Targets`). Suffixes have targets in frames only.
        state: [N] int32, the state to which each action leads.
        pushed: [N, P] int32, the frames that it pushes, and then 0.
        rest: [N] int32, the class of the token suffix that continues after the frame that it pops, 0 if it pops none.
        height: [N] int32, how many more frames there must be room for.
        closes: [N] int64, for an action that only closes what was open, the end of the automaton; -1 for all others.
        pops: The most frames that a token pops.
        counting: [4, N] int32, its effect on the count of characters (`Counting`); None: no action counts.
    """

    transitions: TransitionColumns
    state: NDArray[np.int32]
    pushed: NDArray[np.int32]
    rest: NDArray[np.int32]
    height: NDArray[np.int32]
    closes: NDArray[np.int64]
    pops: int
    counting: NDArray[np.int32] | None = None

    @classmethod
    def of(
        cls,
        dfa: NestedDfa,
        actions: ActionNumbering,
        tokens: TransitionColumns,
        deepest: int = DEEPEST,
        frame_need: NDArray[np.int64] | None = None,
    ) -> ActionTable:
        """Number the actions that the columns of tokens lead to.

        Args:
            dfa: The automaton.
            actions: The actions that targets stand for.
            tokens: The column of every class of tokens.
            deepest: The most frames on a stack. This is `pops` if a token may pop any number of frames.
            frame_need: [F] the most frames that are needed after each frame; None: as the automaton says.
        """
        return _Numbering(dfa, actions, len(tokens), deepest, frame_need).table(tokens)

    @classmethod
    def none(cls, transitions: TransitionColumns) -> ActionTable:
        """Return the table of a finite automaton."""
        nothing = np.zeros(0, np.int32)
        return cls(transitions, nothing, np.zeros((0, 0), np.int32), nothing, nothing, np.zeros(0, np.int64), 0)

    def without(self, hopeless: NDArray[np.bool_]) -> ActionTable:
        """Make each token illegal that leads to one of some states or pushes one of some frames, [S] bool."""
        lost = hopeless[self.state] | (hopeless[self.pushed] & (self.pushed > 0)).any(axis=1)
        dead = np.concatenate([hopeless, lost & (self.rest == 0)])
        table = self.transitions
        owner = np.repeat(np.arange(len(table)), np.diff(table.start))
        kept = ~dead[table.target] & ~hopeless[table.source]
        start = np.searchsorted(owner[kept], np.arange(len(table) + 1))
        return replace(
            self, transitions=TransitionColumns(table.default, start, table.source[kept], table.target[kept])
        )


class _Numbering:
    """Gives new numbers to the actions and suffixes that are met."""

    def __init__(
        self, dfa: NestedDfa, actions: ActionNumbering, classes: int, deepest: int, frame_need: NDArray[np.int64] | None
    ) -> None:
        self.deepest = deepest
        self.actions = actions
        self.need = dfa.need.tolist()
        self.frame_need = (dfa.frame_need if frame_need is None else frame_need).tolist()
        self.targets = actions.targets
        # Whether each state gets another number; the last entry stands for all targets that are not states.
        self.changes = np.append(dfa.need > 0, True)
        self.classes = classes
        self.suffixes: dict[int, int] = {}
        self.found: dict[StackAction, int] = {}
        ends = [dict(pairs) for pairs in _after_ends(dfa, actions)]
        self.plain_ends = {n: ends.index(rest) for n, rest in enumerate(actions.suffixes) if rest and rest in ends}

    def of(self, number: int) -> int:
        """Return the new number of an action."""
        action = self.actions.action(number)
        uncounted = self.actions.uncounted
        state, pushed, rest, height = action[:4]
        if rest:
            rest = self.suffixes.setdefault(rest, self.classes + len(self.suffixes))
        else:
            # Before a bracket can be closed, others may have to be opened inside of it, so there must be room for their frames,
            # for each bracket that is left open. A string that is called is pushed last, and needs no further frame.
            open_brackets = 0
            for frame in pushed:
                height = max(height, open_brackets + self.frame_need[frame])
                open_brackets += frame not in uncounted
            height = max(height, open_brackets + self.need[state])
            if not (height or pushed or action.counts):
                return state
        if uncounted and (height or pushed):
            # One more frame is always allowed, that of a string or a block.
            height += 1
        action = StackAction(state, pushed, rest, height, *action[4:])
        return self.targets.action(self.found.setdefault(action, len(self.found)))

    def all_of(self, numbers: Ints) -> Ints:
        """Return the new numbers of some actions."""
        # Most are states that need no further frames, and keep their numbers. Counted moves get their numbers at the end.
        changes = self.changes[np.minimum(numbers, len(self.changes) - 1)]
        other = np.flatnonzero(changes & ~self.targets.is_counted_move(numbers))
        found = numbers.astype(np.int64)
        met, which = which_of(numbers[other])
        found[other] = np.array([self.of(number) for number in met.tolist()], np.int64)[which]
        return found

    def few_of(self, numbers: list[int]) -> Ints:
        """Return the new numbers of a few actions. Most suffixes have a dozen, for which arrays would take longer."""
        if len(numbers) > FEW:
            return self.all_of(np.array(numbers, np.int64))
        need, moves = self.need, self.targets.is_counted_move
        found = {n: self.of(n) for n in sorted({*numbers}) if (n >= len(need) or need[n]) and not moves(n)}
        return np.array([found.get(n, n) for n in numbers], np.int64)

    def table(self, tokens: TransitionColumns) -> ActionTable:
        does = [self.all_of(tokens.target)]
        frames: list[int] = []
        each: list[int] = []
        # The actions of suffixes may name further suffixes.
        met: list[int] = []
        while len(met) < len(self.suffixes):
            met = [*self.suffixes]
            for number in met[len(each) :]:
                rest = self.actions.suffixes[number]
                each.append(len(rest))
                frames.extend(rest)
                does.append(self.few_of([*rest.values()]))
        source = np.concatenate([tokens.source, self.targets.frame(np.array(frames, np.int64))])
        start = np.concatenate([tokens.start[:-1], tokens.start[-1] + starts(np.array(each, np.int64))])
        default = np.concatenate([tokens.default, np.zeros(len(each), np.int64)])
        plain = {self.suffixes[number]: end for number, end in self.plain_ends.items() if number in self.suffixes}
        transitions, moves = self._with_moves(TransitionColumns(default, start, source, np.concatenate(does)))
        more = len(moves.state)
        columns = zip(*self.found, strict=True) if self.found else [()] * len(StackAction._fields)
        state, pushed, goes_on, height, *counts = columns
        counts_any = more or any(values != NOTHING_COUNTED for values in {*zip(*counts, strict=True)})
        nothing = np.zeros(more, np.int32)
        return ActionTable(
            transitions,
            np.append(np.array(state, np.int32), moves.state.astype(np.int32)),
            self._frames(pushed, more),
            np.append(np.array(goes_on, np.int32), nothing),
            np.append(np.array(height, np.int32), self.height_of(moves.state)),
            np.array(
                [-1 if h else plain.get(r, -1) for r, h in zip(goes_on, height, strict=True)] + [-1] * more, np.int64
            ),
            self._pops(),
            np.concatenate([np.array(counts, np.int32), np.stack([nothing, *moves[1:]]).astype(np.int32)], axis=1)
            if counts_any
            else None,
        )

    def _frames(self, pushed: Sequence[tuple[int, ...]], more: int) -> NDArray[np.int32]:
        """Return the frames that actions push, as states, and then `more` rows of zeros for counted moves."""
        found = np.zeros((len(pushed) + more, max(map(len, pushed), default=0)), np.int32)
        for place in range(found.shape[1]):
            found[: len(pushed), place] = [
                self.targets.frame(frames[place]) if len(frames) > place else 0 for frames in pushed
            ]
        return found

    def height_of(self, states: Ints) -> NDArray[np.int32]:
        """Return the height of counted moves to some states; see `of`."""
        need = np.array(self.need, np.int32)[states]
        return need + (need > 0) if self.actions.uncounted else need

    def _with_moves(self, transitions: TransitionColumns) -> tuple[TransitionColumns, CountedMoves]:
        """Number the counted moves after all other actions. Return the columns with these numbers, and the moves."""
        target = transitions.target
        places = np.flatnonzero(self.targets.is_counted_move(target))
        used, number = which_of(self.targets.counted_move_number(target[places]))
        target[places] = self.targets.action(len(self.found) + number)
        if not len(used):
            return transitions, CountedMoves(*(used for _ in CountedMoves._fields))
        return transitions, CountedMoves(*(column[used] for column in self.actions.counted))

    def _pops(self) -> int:
        """Return the most frames that a token pops."""
        leads = {
            number: [rest for n in self.actions.suffixes[number].values() if (rest := self.actions.action(n).rest)]
            for number in self.suffixes
        }
        chain = [0] * len(self.actions.suffixes)
        if all(rest < number for number, suffixes in leads.items() for rest in suffixes):
            for number in sorted(leads):
                chain[number] = 1 + max([chain[rest] for rest in leads[number]], default=0)
            return max(chain)
        # A suffix may lead back to itself. Then a token pops as many frames as a stack has.
        edges = np.array([(number, rest) for number, suffixes in leads.items() for rest in suffixes], np.int64)
        longest = np.where(np.isin(np.arange(len(chain)), [*leads]), 1, 0)
        for _ in range(self.deepest):
            before = longest.copy()
            np.maximum.at(longest, edges[:, 0], 1 + before[edges[:, 1]])
            if (longest == before).all():
                break
        return min(int(longest.max()), self.deepest)


def _after_ends(dfa: NestedDfa, actions: ActionNumbering) -> list[list[tuple[int, int]]]:
    """Return for each end the frames that it may pop, each with the state after it, or with the action of an end that follows."""
    ends, returns = dfa.after_ends(), dfa.returns
    if not returns:
        return ends

    @cache
    def followed(end: int) -> list[tuple[int, int]]:
        # Only the ends of blocks of items follow each other, one for each size of a block.
        return [(f, actions.pop(tuple(followed(returns[s]))) if s in returns else s) for f, s in ends[end]]

    return [followed(end) for end in range(len(ends))]
