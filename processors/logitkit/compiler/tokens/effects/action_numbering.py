"""The effect of a token on a stack: the state that it leads to, the frames that it pushes, or the bracket that it closes.

A token, or the end of one, may leave the state in which it begins for another one; push frames besides; or close the bracket in
which it begins, so that the bytes after that go on in the state that the popped frame stands for. The effect of these bytes has a
number too, that of a *token suffix*: the action after each frame that may be popped.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.tokens.tables.counted_state import MOST
from logitkit.compiler.tokens.tables.targets import Targets
from logitkit.limits import Limits

__all__ = ["NOTHING_COUNTED", "ActionNumbering", "CountedMoves", "StackAction"]

# The fields of an action from `low` on, if it is independent of the count and does nothing to it.
NOTHING_COUNTED = (0, MOST, False, 0)

# Frames that one token may push: more than any token of a real vocabulary has brackets.
MOST_PUSHED = 64


class StackAction(NamedTuple):
    """The effect of a token, or of the end of one.

    Args:
        state: The state in the end, if no frame is popped.
        pushed: Frames that are left open, the outermost first.
        rest: If a frame is popped, the number of the token suffix that goes on after it; else 0.
        height: The most frames of brackets that are on the stack meanwhile, more than were there.
        low: The least count of characters, before the token, for which it is legal.
        high: The greatest one.
        kept: Whether counting goes on; if not, it starts again.
        added: How many characters of the token belong to the text that is counted after it.
    """

    state: int
    pushed: tuple[int, ...]
    rest: int
    height: int
    low: int = 0
    high: int = MOST
    kept: bool = False
    added: int = 0

    @property
    def counts(self) -> bool:
        """Whether it depends on the count, or does something to it."""
        return self[4:] != NOTHING_COUNTED


class CountedMoves(NamedTuple):
    """Actions that lead to a state and count, and do nothing else: [N] each, as in `StackAction`."""

    state: NDArray[np.int64]
    high: NDArray[np.int64]
    kept: NDArray[np.int64]
    added: NDArray[np.int64]


class ActionNumbering:
    """Numbers actions, as targets beside the states, and suffixes from 1 on.

    Args:
        targets: The numbers of states and actions.
        limits: Bound on how many there are.
        uncounted: Frames that no bracket pushes.
    """

    def __init__(self, targets: Targets, limits: Limits, uncounted: frozenset[int] = frozenset()) -> None:
        self.targets = targets
        self.uncounted = uncounted
        self.limits = limits
        self.known: list[StackAction] = []
        # The action of each suffix after each frame that it may pop; suffix 0 does nothing.
        self.suffixes: list[dict[int, int]] = [{}]
        # Moves that only count, in blocks: there may be thousands, which are never looked at one by one.
        self._counted = 0
        self._blocks: list[CountedMoves] = []
        self._number: dict[StackAction, int] = {}
        self._suffix_number: dict[tuple[tuple[int, int], ...], int] = {(): 0}
        self._together: dict[tuple[tuple[tuple[int, int], ...], ...], list[int]] = {}
        self._number_of_call: dict[tuple[int, int], int] = {}

    def number(self, action: StackAction) -> int:
        """Return the number of an action: a state if nothing else happens, `DEAD` if nothing can go on."""
        if not action.rest and (action.state == DEAD or not (action.pushed or action.height or action.counts)):
            return action.state
        found = self._number.get(action)
        if found is None:
            found = self._number[action] = self.targets.action(len(self.known))
            self.limits.check_states(found)
            self.known.append(action)
        return found

    def add_counted(self, moves: CountedMoves) -> NDArray[np.int64]:
        """Return numbers for moves that only count, none of which is known yet."""
        first = self._counted
        self._counted += len(moves.state)
        self.limits.check_states(self._counted)
        self._blocks.append(moves)
        return self.targets.counted_move(np.arange(first, self._counted))

    @property
    def counted(self) -> CountedMoves:
        """All moves that only count, by their numbers."""
        if len(self._blocks) > 1:
            self._blocks = [CountedMoves(*map(np.concatenate, zip(*self._blocks, strict=True)))]
        return self._blocks[0]

    def action(self, number: int) -> StackAction:
        """Return the action that a number stands for."""
        targets = self.targets
        if not targets.is_action(number):
            return StackAction(number, (), 0, 0)
        if not targets.is_counted_move(number):
            return self.known[targets.action_number(number)]
        move = targets.counted_move_number(number)
        state, high, kept, added = (int(column[move]) for column in self.counted)
        return StackAction(state, (), 0, 0, 0, high, bool(kept), added)

    def pop(self, after_frames: tuple[tuple[int, int], ...]) -> int:
        """Return the number of the action that pops a frame.

        Args:
            after_frames: The frames that may be popped, ascending, each with the number of the action after it; all are alive.
        """
        rest = self._suffix_number.setdefault(after_frames, len(self.suffixes))
        if rest == len(self.suffixes):
            self.suffixes.append(dict(after_frames))
        return self.number(StackAction(DEAD, (), rest, 0)) if rest else DEAD

    def pop_together(self, after_frames: tuple[tuple[tuple[int, int], ...], ...]) -> list[int]:
        """Return the numbers of actions that pop a frame and then do the same as one of them.

        Args:
            after_frames: For each of them, the frames and actions as for `pop`. They may name each other (`Targets.later`).
        """
        found = self._together.get(after_frames)
        if found is None:
            first = len(self.suffixes)
            self.suffixes.extend({} for _ in after_frames)
            found = [self.number(StackAction(DEAD, (), first + i, 0)) for i in range(len(after_frames))]
            targets = self.targets
            for rest, pairs in enumerate(after_frames, first):
                self.suffixes[rest] = {
                    frame: found[targets.later_place(does)] if targets.is_later(does) else does for frame, does in pairs
                }
            self._together[after_frames] = found
        return found

    def called(self, frame: int, inside: int) -> int:
        """Return the number of the action of a bracket that pushes a frame, given the action after that bracket."""
        found = self._number_of_call.get((frame, inside))
        if found is None:
            found = self._number_of_call[frame, inside] = self.number(self._called(frame, inside))
        return found

    def _called(self, frame: int, inside: int) -> StackAction:
        does = self.action(inside)
        state, pushed, rest, height = does[:4]
        height += frame not in self.uncounted
        if not rest:
            alive = state != DEAD and len(pushed) < MOST_PUSHED
            return StackAction(state, (frame, *pushed), 0, height, *does[4:]) if alive else StackAction(DEAD, (), 0, 0)
        after = self.action(self.suffixes[rest].get(frame, DEAD))
        if not after.rest and after.state == DEAD:
            return after
        return StackAction(after.state, after.pushed, after.rest, max(height, after.height), *after[4:])
