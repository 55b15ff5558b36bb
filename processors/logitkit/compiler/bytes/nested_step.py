"""The effect of a byte in a state of an automaton that nests, as one number: a *step*.

In a state, a byte is illegal, leads to a state, opens a call, or ends a call. An automaton has a table of millions of steps, so
each is one number in an array. Only this module knows the numbers: elsewhere, `NestedStep` makes and reads them, for single
numbers and for arrays.

By hand, for the automaton of nested brackets such as `[[][]]`, whose state 2 is the start and in which call 0 leads to state 3:

    state        reads [        reads ]
    2            call 0: -1     illegal: 0
    3            call 0: -1     end 0: -2

Invariants: a number from 0 on is a state, and 0 is `DEAD`. Negative numbers are calls and ends in turn: -1 is call 0, -2 is end
0, -3 is call 1, and so on. So a step does not depend on how many states and calls an automaton has, and adding some changes no
step.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["ByStep", "NestedStep"]

# A number, or an array of numbers.
Code = TypeVar("Code", int, NDArray[np.int32], NDArray[np.int64])


class NestedStep:
    """Makes and reads steps.

    Example:
        >>> NestedStep.call(1), NestedStep.end(0), NestedStep.number(np.array([-1, -2, -3])).tolist()
        (-3, -2, [0, 0, 1])
    """

    @staticmethod
    def call(number: Code) -> Code:
        """Return the step that opens a call."""
        return ~(2 * number)

    @staticmethod
    def end(number: Code) -> Code:
        """Return the step that ends a call, with the end of this number."""
        return ~(2 * number + 1)

    @staticmethod
    def is_state(step: Any) -> Any:
        """Whether a step leads to a state, or is illegal."""
        return step >= 0

    @staticmethod
    def is_call(step: Any) -> Any:
        """Whether a step opens a call."""
        return (step < 0) & (step & 1 == 1)

    @staticmethod
    def is_end(step: Any) -> Any:
        """Whether a step ends a call."""
        return (step < 0) & (step & 1 == 0)

    @staticmethod
    def number(step: Code) -> Code:
        """Return the number of the call or of the end."""
        return ~step >> 1

    @staticmethod
    def shifted(step: NDArray[np.int32], by: int) -> NDArray[np.int32]:
        """Return the same steps after states got higher numbers; calls and ends keep their numbers."""
        return np.where(step > 0, step + np.int32(by), step)


class ByStep:
    """A value for each state, call and end of an automaton. For a whole table of steps, `values[table]` has the values.

    Args:
        states: [S] the value of each state.
        calls: How many calls there are.
        ends: How many ends there are.

    Calls and ends have the value 0 at first.
    """

    def __init__(self, states: NDArray[Any], calls: int, ends: int) -> None:
        # Calls and ends stand after the states, in reverse order: numpy counts negative indices from the end.
        self.values = np.append(states, np.zeros(2 * max(calls, ends), states.dtype))
        """The values, by step."""
        backwards = self.values[len(states) :][::-1]
        self.states = self.values[: len(states)]
        """[S] view of the values of the states."""
        self.calls = backwards[0::2][:calls]
        """[C] view of the values of the calls."""
        self.ends = backwards[1::2][:ends]
        """[E] view of the values of the ends."""

    @classmethod
    def renumbered(cls, states: NDArray[Any], calls: int, ends: int) -> ByStep:
        """Return the new step for each step, given the new numbers of states; calls and ends keep their numbers."""
        found = cls(states, calls, ends)
        found.calls[:] = NestedStep.call(np.arange(calls))
        found.ends[:] = NestedStep.end(np.arange(ends))
        return found
