"""Exits: numbers that say where an end of a copy leads, to a state or to an end of the whole automaton.

A leaf that is copied leads on in the automaton around it. A leaf that is called has one copy for all its callers, and where its
text goes on depends on the frame that its end pops. So an exit is a state in the former case, and in the latter the number of
that end.

By hand: in `{"a": <string>, "b": 1}`, the copy of the leaf for strings may lead to state 17, after the quote: its exit is 17. If
the leaf is called, and its closing quote is end 2 of the automaton, the exit is -3.

Invariants: states are not negative, so ends are; end 0 is -1, as 0 is `DEAD`. All exits of a copy are states, or all are ends.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from numpy.typing import NDArray

__all__ = ["Exit"]

_Number = TypeVar("_Number", int, NDArray[Any])


class Exit:
    """Reads and writes exits, as numbers or arrays."""

    @staticmethod
    def end(number: _Number) -> _Number:
        """Return the exit that is an end of the automaton."""
        return -1 - number

    @overload
    @staticmethod
    def is_end(leads: int) -> bool: ...
    @overload
    @staticmethod
    def is_end(leads: NDArray[Any]) -> NDArray[Any]: ...
    @staticmethod
    def is_end(leads: int | NDArray[Any]) -> bool | NDArray[Any]:
        """Return whether exits are ends of the automaton, not states."""
        return leads < 0

    @staticmethod
    def end_number(leads: _Number) -> _Number:
        """Return the number of the end that an exit is."""
        return -1 - leads
