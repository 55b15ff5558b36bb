"""The states along the way of some rows: the newest densely, older ones here and there."""

from __future__ import annotations

from typing import Any

__all__ = ["Trail"]

# States are kept of the last `DENSE` lengths, and of every `SPACING`-th for `REACH` before. A rejected draft
# of up to `REACH` tokens so costs a replay of less than `SPACING`.
DENSE, SPACING, REACH = 8, 8, 64
KEPT = DENSE + REACH // SPACING + 8


class Trail:
    """The states of the last lengths, for rows in one order; what is forgotten is replayed."""

    def __init__(self, states: dict[int, Any] | None = None) -> None:
        self.states: dict[int, Any] = states or {}

    def put(self, length: int, state: Any) -> None:
        """Keep a state, and let go of what is far behind it."""
        self.states[length] = state
        if (length - DENSE) % SPACING:
            self.states.pop(length - DENSE, None)
        self.states.pop(length - DENSE - REACH, None)
        if len(self.states) > KEPT:
            newest = max(self.states)
            near = {n: s for n, s in self.states.items() if newest - n < (REACH + DENSE if n % SPACING == 0 else DENSE)}
            self.states = {**near, length: state}

    def nearest(self, length: int) -> int | None:
        """Return the largest length with a state, up to the one given."""
        if length in self.states:
            return length
        return max((n for n in self.states if n < length), default=None)

    def upto(self, length: int) -> Trail:
        """Return the part for lengths up to this one; the states are shared."""
        return Trail({n: s for n, s in self.states.items() if n <= length})

    def cut(self) -> None:
        """Keep the newest state alone."""
        for length in sorted(self.states)[:-1]:
            del self.states[length]
