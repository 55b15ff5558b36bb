"""The mask key of a row with a stack: all that its mask depends on. And the classes that are legal for a mask key.

Thousands of different stacks may occur, but a token looks only at the frames that it pops. So rows with equal mask keys share a
mask.

By hand, for nested lists such as `[[],[]]` and tokens that push or pop at most two frames: after `[[[` and after `[[[[`, the
state is the same, the innermost two frames are the same, and there is room for at least two more. So both rows have the same
key.

A class is legal if the row of the state lists it with a live target. If its target is an action that pops a frame, then the
suffix must be legal in the row of this frame, and so on.

Invariants: `room` and `slack` are cut off where more of them makes no difference.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED
from logitkit.compiler.tokens.tables.counted_state import StateAndCount
from logitkit.compiler.tokens.tables.token_table import STAY

if TYPE_CHECKING:
    from logitkit.compiler.tokens.tables.pushdown_table import PushdownTable

__all__ = ["ILLEGAL", "NO_LIMIT", "LegalClasses", "MaskKey"]

# In place of the tokens that are left to a row: it has no limit.
NO_LIMIT = -1

# The cost of an illegal token.
ILLEGAL = 2**30

# The most bytes that are kept of legal suffixes after frames, which many keys share.
REMEMBERED_BYTES = 2**20

# A token may pop more frames than Python's stack is deep. This many are followed by recursion at once.
RECURSION = 64


class MaskKey(NamedTuple):
    """All that the mask of a row depends on.

    Args:
        state: Its state, with the least count with which the same tokens are legal.
        frames: The frames on its stack that a token may pop, the innermost last.
        room: How many more frames it may have, as far as this matters.
        slack: How many tokens more than needed are left to it, as far as this matters; `NO_LIMIT` if tokens are not counted.
    """

    state: int
    frames: tuple[int, ...]
    room: int
    slack: int


class LegalClasses:
    """Which classes are legal for each mask key of one automaton."""

    def __init__(self, automaton: PushdownTable) -> None:
        # The automaton keeps this object, so a reference back would be a cycle.
        self.nesting, self.states, self.classes = automaton.nesting, automaton.states, automaton.classes
        self.targets = automaton.targets
        self.default, self.cost, self.action_cost = automaton.default, automaton.cost, automaton.action_cost
        self.fallback, self.counting = automaton.fallback, automaton.counting
        self.row_start, self.row_class, self.row_target = (
            automaton.row_start,
            automaton.row_class,
            automaton.row_target,
        )
        self.highest = int(self.nesting.height.max(initial=0))
        self._after: BoundedCache[tuple[tuple[int, ...], int], NDArray[np.bool_]] = BoundedCache(REMEMBERED_BYTES)

    def of(self, mask_key: MaskKey) -> NDArray[np.bool_]:
        """Return which classes are legal for a mask key of a live state: [C] bool."""
        state, count = StateAndCount.state(mask_key.state), StateAndCount.count(mask_key.state)
        if self.nesting.cost is None:
            legal = self._legal(state, mask_key.frames, mask_key.room, self.default != DEAD)
        else:
            needed, costs = self.costs_after(state, mask_key.frames, mask_key.room)
            legal = costs <= (ILLEGAL - 1 if mask_key.slack == NO_LIMIT else needed + mask_key.slack - 1)
        return legal if self.counting is None else self._within(state, count, legal)

    def costs_after(self, state: int, frames: tuple[int, ...], room: int) -> tuple[int, NDArray[np.int64]]:
        """Return how many tokens are needed now and after each class, [C]: -1 after EOS, `ILLEGAL` for an illegal class.

        Args:
            state: A state, without its count.
            frames: The frames that a token may pop; more of them add the same number everywhere.
            room: How many more frames there may be.
        """
        needed = int(self.cost[state] + self.cost[[*frames]].sum())
        otherwise = np.where(self.default == STAY, needed, self.cost[self.default])
        costs = np.where(self.default == DEAD, ILLEGAL, otherwise)
        return needed, self._costs(state, frames, room, costs)

    def _within(self, state: int, count: int, legal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Forbid the classes whose actions are illegal with a count, in place. States that count do not fall back."""
        assert self.counting is not None
        begin, symbol, which = self._actions
        row = slice(int(begin[state]), int(begin[state + 1]))
        low, high = self.counting.low[which[row]], self.counting.high[which[row]]
        legal[symbol[row]] &= (low <= count) & (count <= high)
        return legal

    @cached_property
    def _actions(self) -> tuple[NDArray[np.int64], NDArray[np.integer], NDArray[np.int64]]:
        """The actions in rows: where those of each row begin, and the class and the number of each action."""
        outside = np.flatnonzero(self.targets.is_action(self.row_target))
        which = self.targets.action_number(self.row_target[outside].astype(np.int64))
        return np.searchsorted(outside, self.row_start), self.row_class[outside], which

    def _legal(self, state: int, frames: tuple[int, ...], room: int, legal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Write to `legal` whether each class that a row lists is legal, and return it.

        Args:
            state: A state, or a frame that has been popped.
            frames: The frames below it that a token may pop.
            room: How many more frames there may be.
            legal: [C] bool.
        """
        if self.fallback is not None and (below := int(self.fallback[state])) != state:
            self._legal(below, frames, room, legal)
        row = slice(int(self.row_start[state]), int(self.row_start[state + 1]))
        legal[self.row_class[row]] = self.row_target[row] != DEAD
        begin, symbol, which = self._actions
        row = slice(int(begin[state]), int(begin[state + 1]))
        if row.start < row.stop:
            nesting = self.nesting
            height, rest = nesting.height[which[row]], nesting.rest[which[row]]
            legal[symbol[row]] = (height <= room) & self._legal_suffixes(
                frames, room + nesting.counted(frames[-1:], self.states)
            )[rest]
        return legal

    def _legal_suffixes(self, frames: tuple[int, ...], room: int) -> NDArray[np.bool_]:
        """Return [C] which suffixes are legal once the innermost frame is popped. Class 0 stands for "no suffix" and is legal."""
        # More room than any action needs makes no difference.
        room = min(room, self.highest)
        found = self._after.get((frames, room))
        if found is None:
            if len(frames) > RECURSION and len(frames) % RECURSION == 0:
                # Find the suffixes after lower frames first, from the bottom up, so that Python's stack is deep enough.
                for depth in range(RECURSION, len(frames), RECURSION):
                    self._legal_suffixes(frames[:depth], room + self.nesting.counted(frames[depth:], self.states))
            found = np.zeros(self.classes, np.bool_)
            if frames:
                self._legal(frames[-1], frames[:-1], room, found)
            found[0] = True
            self._after.keep((frames, room), found, found.nbytes)
        return found

    def _costs(self, state: int, frames: tuple[int, ...], room: int, costs: NDArray[np.int64]) -> NDArray[np.int64]:
        """Write to `costs` how many tokens are needed after each class that a row lists, `ILLEGAL` if it is illegal; return it.

        Args:
            state: A state, or a frame that has been popped.
            frames: The frames below it that a token may pop.
            room: How many more frames there may be.
            costs: [C] int64.
        """
        if self.fallback is not None and (below_it := int(self.fallback[state])) != state:
            self._costs(below_it, frames, room, costs)
        nesting = self.nesting
        row = slice(int(self.row_start[state]), int(self.row_start[state + 1]))
        target = self.row_target[row].astype(np.int64)
        below = int(self.cost[[*frames]].sum())
        outside = self.targets.is_action(target)
        cost = np.where(target == DEAD, ILLEGAL, self.cost.take(np.where(outside, DEAD, target)) + below)
        # EOS needs no token after it, and is legal whatever limit is left.
        cost[target == FINISHED] = -1
        if outside.any():
            which = self.targets.action_number(target[outside])
            rest = nesting.rest[which]
            cost_after = self.action_cost[which] + below
            if rest.any():
                after = np.full(self.classes, ILLEGAL, np.int64)
                if frames:
                    self._costs(frames[-1], frames[:-1], room + nesting.counted(frames[-1:], self.states), after)
                cost_after = np.where(rest > 0, after[rest], cost_after)
            cost[outside] = np.where(nesting.height[which] > room, ILLEGAL, cost_after)
        costs[self.row_class[row]] = cost
        return costs
