"""States of a thinking section: inside of it, those in which its end is forced, and those outside.

How much of the end marker has been read is known by the state, and when the budget is spent, the rest of the marker is forced.
So each state inside of a section has another one that allows just that rest. No row is ever in it: it is looked up for the
mask, and the state that the row is in stays where it is.

By hand, for `</think>` as text, which has 8 beginnings from "" to `</think`; the first two numbers are `DEAD` and `FINISHED`:

    2-9      inside, after each beginning
    10-17    the same, with the rest forced
    18       the marker has been forced
    19-      outside

Invariants: all groups are in the order of beginnings. Outside comes last, as only the start marker says how many states it has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from torch import Tensor

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE

__all__ = ["INSIDE", "SectionStates"]

# The state at the start of a section.
INSIDE = FIRST_STATE

_Number = TypeVar("_Number", int, Tensor)


@dataclass(frozen=True)
class SectionStates(Generic[_Number]):
    """Reads and writes the states of one automaton, or of an automaton for each row.

    Args:
        inside: The number of states inside a section, or [B] int64.
    """

    inside: _Number

    @property
    def closed(self) -> _Number:
        """The state after a forced end marker."""
        return 2 * self.inside + INSIDE

    @property
    def outside(self) -> _Number:
        """The first state outside of sections."""
        return self.closed + 1

    def forced(self, state: _Number) -> _Number:
        """Return the state in which the end is forced, given one inside."""
        return state + self.inside

    def is_inside(self, state: _Number) -> _Number:
        """Return whether states are inside a section, as booleans."""
        return (state >= INSIDE) & (state < self.inside + INSIDE)

    def is_looked_up(self, state: _Number) -> _Number:
        """Return whether states are only looked up for masks, as booleans."""
        return (state >= self.inside + INSIDE) & (state < self.outside)
