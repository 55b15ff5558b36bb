"""States of a thinking section: inside of it, those in which its end is forced or held back, and those outside.

How much of the end marker has been read is known by the state, and when the budget is spent, the rest of the marker is forced.
So each state inside of a section has another one that allows just that rest. If there is a minimum of tokens, each has a third
one, which allows all but what completes an end marker. No row is ever in these: they are looked up for the mask, and the state
that the row is in stays where it is.

By hand, for `</think>` as text, which has 8 beginnings from "" to `</think`; the first two numbers are `DEAD` and `FINISHED`:

    2-9      inside, after each beginning
    10-17    the same, with the rest forced
    18       the marker has been forced
    19-      outside
    20-27    inside, with the marker held back, if there is a minimum of tokens

Inside, the open states come first, then those at the end of a line or a sentence, at which a grace ends, and then those in a
pause.

Invariants: all groups have the same order. The last group is found by its distance from the first one, as only the start marker
says how many states there are outside.
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
        breaks: How many of them are at the end of a line or a sentence.
        paused: How many of them are in a pause, in which nothing is forced.
        held: How far the states with the marker held back are from those inside; 0 if there are none.
    """

    inside: _Number
    breaks: _Number | int = 0
    paused: _Number | int = 0
    held: _Number | int = 0

    @property
    def closed(self) -> _Number:
        """The state after a forced end marker."""
        return 2 * self.inside + INSIDE

    @property
    def outside(self) -> _Number:
        """The first state outside of sections."""
        return self.closed + 1

    @property
    def first(self) -> int:
        """The first state inside a section, which is its start."""
        return INSIDE

    @property
    def bounds(self) -> tuple[_Number, _Number, _Number]:
        """The first state at the end of a line or a sentence, the first one in a pause, and the one after all states inside."""
        pauses = self.inside - self.paused + INSIDE
        return pauses - self.breaks, pauses, self.inside + INSIDE

    def of(self, number: int) -> int:
        """Return a state inside a section, given its number from 0."""
        return INSIDE + number

    def distance_to(self, state: _Number) -> _Number:
        """Return how far a state is from the first one inside."""
        return state - INSIDE

    def fit(self, states: int) -> bool:
        """Whether an automaton with this many states has those of a section."""
        if self.held > 0 and not self.outside < self.held + INSIDE == states - self.inside:
            return False
        return bool(self.outside < states)

    def forced(self, state: _Number) -> _Number:
        """Return the state in which the end is forced, given one inside."""
        return state + self.inside

    def holding(self, state: _Number) -> _Number:
        """Return the state in which the end marker is held back, given one inside."""
        return state + self.held

    def is_inside(self, state: _Number) -> _Number:
        """Return whether states are inside a section, as booleans."""
        return (state >= INSIDE) & (state < self.inside + INSIDE)

    def is_open(self, state: _Number) -> _Number:
        """Return whether states are inside a section and not in a pause, as booleans."""
        return (state >= INSIDE) & (state < self.bounds[1])

    def is_break(self, state: _Number) -> _Number:
        """Return whether states are at the end of a line or a sentence, as booleans."""
        breaks, pauses, _ = self.bounds
        return (state >= breaks) & (state < pauses)

    def is_looked_up(self, state: _Number) -> _Number:
        """Return whether states are only looked up for masks, as booleans."""
        forced = (state >= self.inside + INSIDE) & (state < self.outside)
        return forced | ((self.held > 0) & (state >= self.held + INSIDE))
