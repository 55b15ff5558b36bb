"""States of a few copies of a record, each followed by a rest of its own.

In `([a-z]+,){0,900};end`, the *rest* `;end` may follow any record. A few copies of the record are compiled. Each has a rest of
its own, and one more rest comes after the last copy. So the target of a token shows after how many records it leaves them.

By hand, for records of 4 states, a rest of 3, and 2 copies; the first two numbers are `DEAD` and `FINISHED`:

    2-5     copy 0
    6-8     the rest in place of copy 0
    9-12    copy 1
    13-15   the rest in place of copy 1
    16-18   the rest after both copies

Invariants: a copy ends in the first state of the next one, and copy 0 moved by one block (a copy with its rest) is copy 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.bytes.transition_columns import Ints

__all__ = ["RecordStates"]


@dataclass(frozen=True, slots=True)
class RecordStates:
    """Reads and writes the numbers of states.

    Args:
        size: The number of states of a copy.
        rest: The number of states of a rest.
        copies: The number of copies.
    """

    size: int
    rest: int
    copies: int

    @property
    def block(self) -> int:
        """The number of states of a copy and its rest: how far it is from a state to the same one of the next copy."""
        return self.size + self.rest

    @property
    def count(self) -> int:
        """The number of all states."""
        return FIRST_STATE + self.copies * self.block + self.rest

    def in_copy(self, copy: int, place: Ints) -> Ints:
        """Return the states at some places of a copy. Place 0 of the copy after the last one is where the last rest begins."""
        return place + FIRST_STATE + copy * self.block

    def in_rest(self, copy: int, place: Ints) -> Ints:
        """Return the states at some places of the rest in place of a copy, or of the rest after the last copy."""
        return place + FIRST_STATE + copy * self.block + (self.size if copy < self.copies else 0)

    def places(self, states: Ints) -> tuple[Ints, NDArray[np.bool_], Ints]:
        """Return the copy of each state, whether the state is in a rest, and its place in the copy or in the rest."""
        copy, inside = np.divmod(states - FIRST_STATE, self.block)
        # After the last copy there is only the rest.
        inside += np.where(copy == self.copies, self.size, 0)
        in_rest = inside >= self.size
        return copy, in_rest, np.where(in_rest, inside - self.size, inside)
