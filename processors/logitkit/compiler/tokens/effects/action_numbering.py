"""Stack actions: the effect of a token, or of the end of a token, on the state and the stack.

There are two kinds. An action leads to a state and may push frames. Or it pops a frame, and the rest of the token, its *token
suffix*, continues in the state that the frame stands for. A suffix is known as a table: for each frame that may be popped, the
action after it.

By hand, for nested lists such as `[[],[]]`: the token `[[` pushes two frames and leads to the state inside of a list. `],[`
closes a list, so it pops a frame, and then the suffix `,[` continues. After the frame of an inner list, this suffix leads to
the state inside of the next list and pushes a frame. After the frame of the outermost list, it is dead.

Invariants: equal actions have equal numbers, and so have equal suffixes. An action that only leads to a state is this state.
Suffix 0 does nothing.
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

# The fields of an action from `low` on, if the count of a row does not matter to it and stays as it is.
NOTHING_COUNTED = (0, MOST, False, 0)

# The most frames that one token may push. No token of a real vocabulary has this many brackets.
MOST_PUSHED = 64


class StackAction(NamedTuple):
    """The effect of a token, or of the end of a token.

    Args:
        state: The state in the end, if no frame is popped.
        pushed: The frames that it pushes, the outermost first.
        rest: If a frame is popped, the number of the token suffix that continues after it; else 0.
        height: The most frames of brackets that it needs room for at once, beyond those that were on the stack.
        low: The least count of characters before the token with which it is legal.
        high: The greatest count with which it is legal.
        kept: Whether counting continues; if not, it starts again.
        added: How many characters of the token belong to the text that is counted after the token.
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
        """Whether it depends on the count or changes it."""
        return self[4:] != NOTHING_COUNTED


class CountedMoves(NamedTuple):
    """Actions that lead to a state and count, and do nothing else: [N] each. Their fields are those of `StackAction`."""

    state: NDArray[np.int64]
    high: NDArray[np.int64]
    kept: NDArray[np.int64]
    added: NDArray[np.int64]


class ActionNumbering:
    """Gives numbers to actions, as targets after the states, and to suffixes, from 1 on.

    Args:
        targets: The numbers of states and actions.
        limits: Bound on the number of actions.
        uncounted: The frames that do not count as nesting.
    """

    def __init__(self, targets: Targets, limits: Limits, uncounted: frozenset[int] = frozenset()) -> None:
        self.targets = targets
        self.uncounted = uncounted
        self.limits = limits
        self.known: list[StackAction] = []
        # For each suffix, the action after each frame that may be popped.
        self.suffixes: list[dict[int, int]] = [{}]
        # Counted moves, in blocks of arrays: there may be thousands of them, too many to make an object for each.
        self._counted = 0
        self._blocks: list[CountedMoves] = []
        self._number: dict[StackAction, int] = {}
        self._suffix_number: dict[tuple[tuple[int, int], ...], int] = {(): 0}
        self._together: dict[tuple[tuple[tuple[int, int], ...], ...], list[int]] = {}
        self._number_of_call: dict[tuple[int, int], int] = {}

    def number(self, action: StackAction) -> int:
        """Return the number of an action. It is a state if the action only leads to it, and `DEAD` if the action is dead."""
        if not action.rest and (action.state == DEAD or not (action.pushed or action.height or action.counts)):
            return action.state
        found = self._number.get(action)
        if found is None:
            found = self._number[action] = self.targets.action(len(self.known))
            self.limits.check_states(found)
            self.known.append(action)
        return found

    def add_counted(self, moves: CountedMoves) -> NDArray[np.int64]:
        """Return numbers for counted moves. None of them may be known yet."""
        first = self._counted
        self._counted += len(moves.state)
        self.limits.check_states(self._counted)
        self._blocks.append(moves)
        return self.targets.counted_move(np.arange(first, self._counted))

    @property
    def counted(self) -> CountedMoves:
        """All counted moves, by their numbers."""
        if len(self._blocks) > 1:
            self._blocks = [CountedMoves(*map(np.concatenate, zip(*self._blocks, strict=True)))]
        return self._blocks[0]

    def action(self, number: int) -> StackAction:
        """Return the action with a number."""
        targets = self.targets
        if not targets.is_action(number):
            return StackAction(number, (), 0, 0)
        if not targets.is_counted_move(number):
            return self.known[targets.action_number(number)]
        move = targets.counted_move_number(number)
        state, high, kept, added = (int(column[move]) for column in self.counted)
        return StackAction(state, (), 0, 0, 0, high, bool(kept), added)

    def pop(self, after_frames: tuple[tuple[int, int], ...]) -> int:
        """Return the number of an action that pops a frame.

        Args:
            after_frames: The frames that may be popped, ascending, each with the number of the action after it. None of these
                actions is dead.
        """
        rest = self._suffix_number.setdefault(after_frames, len(self.suffixes))
        if rest == len(self.suffixes):
            self.suffixes.append(dict(after_frames))
        return self.number(StackAction(DEAD, (), rest, 0)) if rest else DEAD

    def pop_together(self, after_frames: tuple[tuple[tuple[int, int], ...], ...]) -> list[int]:
        """Return the numbers of several actions that pop a frame, after which one of them may follow, such as the same one again.

        Args:
            after_frames: For each action, the frames and the actions after them, as for `pop`. An action of this list is named
                by its place in the list (`Targets.later`).
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
        """Return the number of the action that pushes a frame and then does what another action does.

        Args:
            frame: The frame that a bracket pushes.
            inside: The number of the action of the bytes after the bracket. If it pops a frame, this is the one.
        """
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
