"""The effect of a symbol in a state of an automaton that may look at a symbol before it reads it, as one number.

The problem: a symbol is illegal, or is read and leads to a state, or is read and pushes frames, or is not read while a frame is
popped. There are many states and symbols, so each such choice is one number. Only this module knows the numbers: elsewhere,
`PushdownStep` makes and reads them, for single numbers and for arrays.

By hand, for `sum ::= item ("+" item)*` and `item ::= "1" | "(" sum ")"` as in `pushdown_dfa`, where state 2 is the start, state 3
is `item read`, state 4 is `after F`, and move 0 pushes F and leads to the start:

    state        1        (             +        )          end of the text
    start        3        move 0: -2    0        0          0
    item read    0        0             2        pop: -1    1 (finished)
    after F      0        0             0        3          0

Invariants: a number from 0 on is a state, 0 is `DEAD` and 1 is `FINISHED`. -1 is `POP`, -2 is move 0, -3 is move 1, and so on.
So a number does not depend on how many states there are, and can be made before all of them are known.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["POP", "PushdownStep"]

# A number, or an array of numbers.
Code = TypeVar("Code", int, NDArray[np.int32], NDArray[np.int64])

# The symbol is not read: the innermost frame is popped, and the symbol is looked at again.
POP = -1


class PushdownStep:
    """Makes and reads the numbers.

    Example:
        >>> PushdownStep.push(0), PushdownStep.move(-3), PushdownStep.is_push(np.array([-2, POP, 0, 7])).tolist()
        (-2, 1, [True, False, False, False])
    """

    @staticmethod
    def push(move: Code) -> Code:
        """Return the step that pushes the frames of a move, and leads to its state."""
        return POP - 1 - move

    @staticmethod
    def is_state(step: Any) -> Any:
        """Whether a step leads to a state, or is illegal."""
        return step > POP

    @staticmethod
    def is_push(step: Any) -> Any:
        """Whether a step pushes frames."""
        return step < POP

    @staticmethod
    def move(step: Code) -> Code:
        """Return the move of a step that pushes frames."""
        return POP - 1 - step

    @staticmethod
    def order(step: int) -> tuple[bool, int]:
        """Return by what steps are sorted: pops, then states, then moves, by their numbers."""
        is_push = PushdownStep.is_push(step)
        return is_push, PushdownStep.move(step) if is_push else step
