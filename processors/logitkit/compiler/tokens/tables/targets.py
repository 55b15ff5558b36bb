"""Targets: numbers that say where a token leads, to a state or to a stack action.

Most tokens lead to a state and do nothing else. A few also change the stack or the count. This is a *stack action*, described in
arrays of its own (`ActionNumbering`, `StackActions`). A table of tokens has millions of entries, so both are plain numbers in one
array: states first, then stack actions. The last states are frames: no row is ever in one, but its line of the table says what
the rest of a token does after the frame is popped.

By hand, for an automaton of 120 states, of which 20 are frames:

    7      state 7
    103    frame 3, in tables of frames that stack actions push
    120    action 0
    125    action 5

Invariants:

- In the tables of an automaton, targets are dense: an array with the states and then the stack actions has an entry for each
  target.
- While an automaton is compiled, there are also targets for counted moves (`CountedMoves`), from 2**29 on. No limit allows that
  many states and stack actions. Stack actions that lead to each other get their numbers together, and negative numbers stand
  for them until then.
- In the tables of a registry, automata have different numbers of states, so stack actions begin at 2**30 for all of them
  (`REGISTRY_TARGETS`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar, overload

from numpy.typing import NDArray
from torch import Tensor

__all__ = ["REGISTRY_TARGETS", "Targets"]

_FIRST_COUNTED_MOVE = 2**29

_Number = TypeVar("_Number", int, NDArray[Any], Tensor)


@dataclass(frozen=True, slots=True)
class Targets:
    """Reads and writes the targets of one automaton, as numbers, arrays or tensors.

    Args:
        states: The number of states, frames included.
        frames: How many of these are frames.
    """

    states: int
    frames: int = 0

    @property
    def first_frame(self) -> int:
        """The state with which the frames begin."""
        return self.states - self.frames

    def frame(self, number: _Number) -> _Number:
        """Return the state that stands for a frame."""
        return number + self.first_frame

    def frame_number(self, state: _Number) -> _Number:
        """Return the number of the frame that a state stands for."""
        return state - self.first_frame

    def action(self, number: _Number) -> _Number:
        """Return the target of a stack action."""
        return number + self.states

    @overload
    def is_action(self, target: int) -> bool: ...
    @overload
    def is_action(self, target: NDArray[Any]) -> NDArray[Any]: ...
    @overload
    def is_action(self, target: Tensor) -> Tensor: ...
    def is_action(self, target: int | NDArray[Any] | Tensor) -> bool | NDArray[Any] | Tensor:
        """Return whether targets are stack actions, not states."""
        return target >= self.states

    def action_number(self, target: _Number) -> _Number:
        """Return the number of the stack action that a target is."""
        return target - self.states

    @staticmethod
    def counted_move(number: _Number) -> _Number:
        """Return the target of a counted move."""
        return number + _FIRST_COUNTED_MOVE

    @overload
    @staticmethod
    def is_counted_move(target: int) -> bool: ...
    @overload
    @staticmethod
    def is_counted_move(target: NDArray[Any]) -> NDArray[Any]: ...
    @staticmethod
    def is_counted_move(target: int | NDArray[Any]) -> bool | NDArray[Any]:
        """Return whether targets are counted moves."""
        return target >= _FIRST_COUNTED_MOVE

    @staticmethod
    def counted_move_number(target: _Number) -> _Number:
        """Return the number of the counted move that a target is."""
        return target - _FIRST_COUNTED_MOVE

    @staticmethod
    def later(place: int) -> int:
        """Return the negative number that stands for a stack action without a number, given its place in the list of these."""
        return -1 - place

    @staticmethod
    def is_later(target: int) -> bool:
        """Return whether a target is a stack action without a number."""
        return target < 0

    @staticmethod
    def later_place(target: int) -> int:
        """Return the place of a stack action without a number."""
        return -1 - target


# The targets in the tables of a registry, the same for all its automata.
REGISTRY_TARGETS = Targets(2**30)
