"""Targets before a marker: numbers that say whether a token stays before the marker, or ends it with some bytes left.

The table of the text before a marker is the same whatever follows the marker. So a token that ends the marker cannot lead to a
state after it. Its target only says how many of its bytes are left.

By hand, for any text until `</think>` with 10 states: `</` leads to 4, a state inside of the marker. `>` leads to 10, because
it ends the marker and no byte is left. `>{"a` leads to 13, because the three bytes `{"a` are left.

Invariants: the end of the marker is not a state, because the second automaton begins there. A token id as marker leaves no bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["MarkerTargets"]

_Number = TypeVar("_Number", int, NDArray[Any])


@dataclass(frozen=True, slots=True)
class MarkerTargets:
    """Reads and writes the targets of the text before a marker, as numbers or arrays.

    Args:
        states: The number of states.
    """

    states: int

    def ended(self, left: _Number) -> _Number:
        """Return the target of a token that ends the marker, given how many of its bytes are left."""
        return left + self.states

    def is_ended(self, target: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether tokens end the marker, so that their targets are not states."""
        found: NDArray[np.bool_] = target >= self.states
        return found

    def left(self, target: _Number) -> _Number:
        """Return how many bytes are left of tokens that end the marker."""
        return target - self.states
