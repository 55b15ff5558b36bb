"""Two automata over one vocabulary, read by *common classes*: classes of tokens that are the same for both.

By hand: tokens 0, 1 and 2 have the classes 1, 1, 2 in one automaton and 1, 2, 2 in the other one. They have the common
classes 0, 1 and 2, one for each of the pairs (1, 1), (1, 2) and (2, 2). The first automaton does the same with common classes 0
and 1.

Invariants: tokens of one common class are of one class in both automata.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.bytes.transition_columns import Ints, starts
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["Side", "common_classes", "listed"]


def common_classes(a: TokenAutomaton, b: TokenAutomaton) -> tuple[Ints, Side, Side]:
    """Return [V] the common class of each token, and both automata as read by common classes."""
    both, class_of = np.unique(a.class_of.astype(np.int64) * b.classes + b.class_of, return_inverse=True)
    return class_of.ravel(), Side(a, both // b.classes), Side(b, both % b.classes)


class Side:
    """One automaton, read by common classes.

    Args:
        automaton: The automaton.
        own: [J] for each common class, the class of the automaton.
    """

    def __init__(self, automaton: TokenAutomaton, own: NDArray[np.int64]) -> None:
        self.automaton = automaton
        self.own = own
        self.classes = len(own)
        # [S] the state that each state falls back to, or itself.
        self.below = np.arange(automaton.states) if automaton.fallback is None else automaton.fallback

    def falls(self, states: Ints) -> NDArray[np.bool_]:
        """Return which of some states fall back to another."""
        falls: NDArray[np.bool_] = self.below[states] != states
        return falls

    def rows(self, states: Ints) -> NDArray[np.int32]:
        """Return [N, J] the targets of some states that do not fall back."""
        which, row_of = np.unique(states, return_inverse=True)
        automaton = self.automaton
        rows = np.where(automaton.default == STAY, which[:, None], automaton.default).astype(np.int32)
        place, owner = expand(automaton.row_start[which], automaton.row_start[which + 1] - automaton.row_start[which])
        target = automaton.row_target[place]
        rows[owner, automaton.row_class[place]] = np.where(target == STAY, which[owner], target)
        rows[which < FIRST_STATE] = DEAD
        common: NDArray[np.int32] = rows[:, self.own][row_of.ravel()]
        return common

    def listed(self, states: Ints) -> tuple[Ints, Ints, Ints]:
        """Return what the rows of some states list: the index of the state, a common class, and its target.

        A state that falls back lists only what differs. For a state that stays by default, this is listed too, because the state
        that it falls back to stays somewhere else.
        """
        automaton = self.automaton
        place, owner = expand(
            automaton.row_start[states], automaton.row_start[states + 1] - automaton.row_start[states]
        )
        symbol = automaton.row_class[place].astype(np.int64)
        target = automaton.row_target[place].astype(np.int64)
        staying = np.flatnonzero(automaton.default == STAY)
        if len(staying):
            moving = automaton.default[symbol] != STAY
            stays, of_state = np.tile(staying, len(states)), np.repeat(np.arange(len(states)), len(staying))
            symbol, owner = np.concatenate([symbol[moving], stays]), np.concatenate([owner[moving], of_state])
            target = np.concatenate([target[moving], self._targets(states[of_state], stays)])
        order, begin = self._by_own
        members, of_entry = expand(begin[symbol], begin[symbol + 1] - begin[symbol])
        return owner[of_entry], order[members], target[of_entry]

    def targets(self, states: Ints, symbols: Ints) -> NDArray[np.int64]:
        """Return the target of each state with the common class at the same index."""
        return self._targets(states, self.own[symbols])

    def _targets(self, states: Ints, own: Ints) -> NDArray[np.int64]:
        automaton = self.automaton
        target = automaton.default[own].astype(np.int64)
        asking, at = np.arange(len(states)), states
        while len(asking):
            wanted = at * np.int64(automaton.classes) + own[asking]
            place = np.searchsorted(self._keys, wanted).clip(max=max(len(self._keys) - 1, 0))
            found = self._keys[place] == wanted if len(self._keys) else np.zeros(len(asking), bool)
            target[asking[found]] = automaton.row_target[place[found]]
            further = ~found & (self.below[at] != at)
            asking, at = asking[further], self.below[at[further]]
        return np.where(target == STAY, states, target)

    @cached_property
    def _keys(self) -> NDArray[np.int64]:
        automaton = self.automaton
        state = np.repeat(np.arange(automaton.states), np.diff(automaton.row_start))
        return state * np.int64(automaton.classes) + automaton.row_class

    @cached_property
    def _by_own(self) -> tuple[Ints, Ints]:
        """All common classes, sorted by the automaton's own class, and where each of these begins."""
        order = np.argsort(self.own, kind="stable")
        return order, starts(np.bincount(self.own, minlength=self.automaton.classes))


def listed(side: Side, limits: Limits, falls_back: bool = True) -> tuple[Ints, Ints, NDArray[np.int64]]:
    """Return the entries of all states in a table whose default is dead: state, common class and target, without EOS.

    Args:
        side: The automaton.
        limits: Bounds on the work.
        falls_back: Whether states that fall back list only what differs from the state that they fall back to.

    Raises:
        PatternTooLarge: There are too many entries.
    """
    automaton = side.automaton
    states = np.arange(FIRST_STATE, automaton.states)
    falls = side.falls(states)
    if not automaton.default.any() and (falls_back or not falls.any()):
        # The rows list all that is not dead.
        owner, symbol, target = side.listed(states)
        alive = (target > FINISHED) | falls[owner]
        return states[owner[alive]], symbol[alive], np.where(target == FINISHED, DEAD, target)[alive]
    last = states[~falls]
    limits.check_work((len(last) if falls_back else len(states)) * side.classes // 4)
    rows = side.rows(last)
    which, symbol = np.nonzero(rows >= FIRST_STATE)
    found = [(last[which], symbol, rows[which, symbol].astype(np.int64))]
    falling = states[falls]
    if falls_back:
        owner, symbol, target = side.listed(falling)
        found.append((falling[owner], symbol, np.where(target == FINISHED, DEAD, target)))
    else:
        owner, symbol = np.repeat(falling, side.classes), np.tile(np.arange(side.classes), len(falling))
        target = side.targets(owner, symbol)
        alive = target >= FIRST_STATE
        found.append((owner[alive], symbol[alive], target[alive]))
    source, symbol, target = (np.concatenate(column) for column in zip(*found, strict=True))
    return source, symbol, target
