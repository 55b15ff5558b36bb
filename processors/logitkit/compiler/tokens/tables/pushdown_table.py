"""The effects of tokens on the stack and the count of a row, besides leading from state to state.

In `{"a": {"a": ...}}`, the bracket that opens the value of a member pushes a frame, which says what follows the value. The
bracket that closes the value pops this frame. A token may do both, several times. Its whole effect is a *stack action*, which
was found when the automaton was compiled. Here it is looked up and applied.

By hand, for nested lists such as `[[],[]]`: in the state after a value in a list, the token `],` is an action that pops a
frame, and its suffix is the comma. The row of an inner list's frame lists the comma with an action to the state before a value.
So the row has this state and one frame less.

Invariants: the stack of a dead row is empty. Rows of a finite automaton have neither a stack nor a count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.tokens.tables.counted_state import Counting, StateAndCount, Thresholds
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT, LegalClasses, MaskKey
from logitkit.compiler.tokens.tables.packed_stacks import Packed, frames_of, packed
from logitkit.compiler.tokens.tables.stack_actions import FLAT, StackActions
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.compiler.tokens.tables.token_table import TokenTable

__all__ = ["PushdownTable"]

# The most bytes that are kept of effects on stacks: some thousands for stacks of the usual depth. The same ones occur often.
REMEMBERED_BYTES = 2**21


@dataclass(frozen=True, eq=False)
class PushdownTable(TokenTable):
    """A table of tokens whose rows may have a stack of frames. A frame stands for what follows an open bracket's value.

    Args:
        nesting: The effects of tokens on the stack.
    """

    nesting: StackActions = field(default=FLAT, kw_only=True)

    @property
    def has_stacks(self) -> bool:
        """Whether rows have a stack, a count or a limit of tokens in addition to their state."""
        return self.nesting.max_depth > 0

    @cached_property
    def targets(self) -> Targets:
        """The numbers of its states, frames and actions."""
        return Targets(self.states, self.nesting.frames)

    @property
    def first_frame(self) -> int:
        """The state with which the frames begin."""
        return self.targets.first_frame

    @cached_property
    def cost(self) -> NDArray[np.int64]:
        """[S] how many tokens each state and frame needs to the end, 0 if this is not known."""
        return np.zeros(self.states, np.int64) if self.nesting.cost is None else self.nesting.cost.astype(np.int64)

    @cached_property
    def action_cost(self) -> NDArray[np.int64]:
        """[N] how many tokens are needed after each action that pushes."""
        pushed = np.where(self.nesting.pushed > 0, self.cost[self.nesting.pushed], 0)
        found: NDArray[np.int64] = self.cost[self.nesting.state] + pushed.sum(axis=1)
        return found

    def _action(self, which: int) -> tuple[int, tuple[int, ...], int, int]:
        """Return the state, the pushed frames, the rest and the height of an action."""
        found = self._actions.get(which)
        if found is None:
            nesting = self.nesting
            pushed = tuple([frame for frame in nesting.pushed[which].tolist() if frame])
            found = int(nesting.state[which]), pushed, int(nesting.rest[which]), int(nesting.height[which])
            self._actions[which] = found
        return found

    @cached_property
    def _actions(self) -> dict[int, tuple[int, tuple[int, ...], int, int]]:
        """The actions that rows have met, which are few."""
        return {}

    @cached_property
    def first_action(self) -> int:
        """The least target that is an action. `targets.is_action` would take too long at every token."""
        return self.targets.action(0)

    @cached_property
    def counting(self) -> Counting | None:
        """The effects of actions on the count of a row; None: they have no effect."""
        return None if self.nesting.counting is None else Counting.of(self.nesting.counting)

    def step(self, state: int, stack: Packed, token: int) -> tuple[int, Packed]:
        """Return the state and the stack after one token; -1 stands for no token. The stack of a dead row is empty."""
        if token == -1:
            return state, stack
        target = self.next(StateAndCount.state(state), token)
        # Few tokens do anything to the stack.
        if DEAD < target < self.first_action:
            return target, stack
        return self.after_target(target, stack, StateAndCount.count(state))

    def after_target(self, target: int, stack: Packed, count: int) -> tuple[int, Packed]:
        """Return the state and the stack after a target, be it a state, `DEAD` or an action.

        Args:
            target: The target.
            stack: The stack before the token.
            count: The count of the state before it.
        """
        effect = self._counts.get(target)
        if effect is not None:
            after, low, high, kept, added = effect
            if not low <= count <= high:
                target = DEAD
            elif kept:
                # An action that continues counting does not change the stack.
                return StateAndCount.of(after, count + added), stack
        found = self._after_target.get((target, stack))
        if found is None:
            found = self._after_target.keep((target, stack), self._followed(target, stack), 2 * len(stack))
        return found

    @cached_property
    def _counts(self) -> dict[int, tuple[int, ...]]:
        """For each target that is an action, the state that it leads to and its effect on the count."""
        if self.counting is None:
            return {}
        effects = zip(*(column.tolist() for column in (self.nesting.state, *self.counting)), strict=True)
        return dict(enumerate(effects, self.first_action))

    @cached_property
    def _after_target(self) -> BoundedCache[tuple[int, Packed], tuple[int, Packed]]:
        return BoundedCache(REMEMBERED_BYTES)

    def _followed(self, target: int, stack: Packed) -> tuple[int, Packed]:
        """Return the state and the stack after a target after which counting starts again, or that does not count."""
        frames = frames_of(stack)
        targets = self.targets
        while targets.is_action(target):
            action = target
            target, pushed, rest, height = self._action(targets.action_number(action))
            if self.nesting.counted(frames, self.states) + height > self.nesting.counted_depth:
                target = DEAD
            elif rest:
                target, frames = (self.target(frames[-1], rest), frames[:-1]) if frames else (DEAD, ())
            else:
                frames += pushed
                if self.counting is not None:
                    target = StateAndCount.of(target, self._counts[action][-1])
                break
        return target, packed(() if target == DEAD else frames, len(stack))

    def mask_key(self, state: int, stack: Packed, left: int) -> MaskKey | int:
        """Return the mask key of a row, or its state if it has no stack. Counts with the same legal tokens have one key.

        Args:
            state: Its state.
            stack: Its frames.
            left: How many tokens are left to it, or `NO_LIMIT`.
        """
        if state < FIRST_STATE or not self.has_stacks:
            return state
        if self.counting is not None:
            state = self._thresholds.canonical(state)
        found = self._mask_keys.get((state, stack))
        if found is None:
            found = self._mask_keys.keep((state, stack), self._mask_key(state, frames_of(stack)), len(stack))
        mask_key, needed = found
        if left == NO_LIMIT or self.nesting.cost is None:
            return mask_key
        return MaskKey(state, mask_key.frames, mask_key.room, min(max(left - needed, 0), self._dearest))

    def _mask_key(self, state: int, frames: tuple[int, ...]) -> tuple[MaskKey, int]:
        """Return the mask key of a row without a limit of tokens, and how many tokens it needs to the end."""
        room = min(self.nesting.counted_depth - self.nesting.counted(frames, self.states), self._highest)
        alone = StateAndCount.state(state)
        popped = frames[max(len(frames) - self._pops[alone], 0) :]
        needed = 0 if self.nesting.cost is None else int(self.cost[alone] + self.cost[[*frames]].sum())
        return MaskKey(state, popped, room, NO_LIMIT), needed

    @cached_property
    def _thresholds(self) -> Thresholds:
        assert self.counting is not None
        return Thresholds(self.row_start, self.row_target, self.targets, self.counting)

    def has_state(self, state: int) -> bool:
        """Whether a row may be in a state, with its count."""
        alone, count = StateAndCount.state(state), StateAndCount.count(state)
        most = 0 if self.counting is None or alone >= self.states else self._most_counts[alone]
        return alone < self.first_frame and 0 <= count <= most

    @cached_property
    def _most_counts(self) -> list[int]:
        assert self.counting is not None
        found: list[int] = self.counting.most(self.nesting.state, self.states).tolist()
        return found

    @cached_property
    def _mask_keys(self) -> BoundedCache[tuple[int, Packed], tuple[MaskKey, int]]:
        return BoundedCache(REMEMBERED_BYTES)

    @cached_property
    def _highest(self) -> int:
        return int(self.nesting.height.max(initial=0))

    @cached_property
    def _dearest(self) -> int:
        """More tokens than any one token can add to the number that is needed."""
        return 1 + int(self.cost.max(initial=0) + self.action_cost.max(initial=0))

    @cached_property
    def _pops(self) -> list[int]:
        """The most frames that a token pops in each state."""
        most = np.zeros(self.states + len(self.nesting.state), np.int64)
        suffixes = np.flatnonzero(self.nesting.rest)
        of_class = np.zeros(self.classes, np.int64)
        # Few targets are actions.
        outside = np.flatnonzero(self.targets.is_action(self.row_target))
        target = self.row_target[outside]
        for _ in range(self.nesting.pops):
            np.maximum.at(of_class, self.row_class[outside], most[target])
            most[self.targets.action(suffixes)] = 1 + of_class[self.nesting.rest[suffixes]]
        owner = np.searchsorted(self.row_start, outside, side="right") - 1
        found = np.zeros(self.states, np.int64)
        np.maximum.at(found, owner, most[target])
        if self.fallback is not None:
            found = np.maximum(found, found[self.fallback])
        result: list[int] = found.tolist()
        return result

    def legal(self, mask_key: MaskKey | int) -> NDArray[np.bool_]:
        """Return which classes are legal in a live state, or in a mask key of one: [C] bool."""
        return self.legal_classes(mask_key) if isinstance(mask_key, int) else self._legal.of(mask_key)

    def tokens_needed(self, state: int, stack: Packed) -> tuple[int, NDArray[np.int64]]:
        """Return how many tokens a row needs to the end, and how many after each class of tokens, [C]; EOS is not counted.

        The automaton must know the costs of its states. See `LegalClasses.costs_after` for EOS and illegal classes.

        Args:
            state: A live state, with its count.
            stack: Its frames.
        """
        frames = frames_of(stack)
        room = min(self.nesting.counted_depth - self.nesting.counted(frames, self.states), self._highest)
        return self._legal.costs_after(StateAndCount.state(state), frames, room)

    @cached_property
    def _legal(self) -> LegalClasses:
        return LegalClasses(self)
