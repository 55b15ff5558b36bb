"""The deterministic automaton over bytes and special tokens, from which the classes of tokens are computed.

By hand, for the pattern `[ab]c`: state 2 is the start, state 3 comes after `a` or `b`, and state 4 is the end. The bytes `a`
and `b` are of one class, `c` of another one, and class 0 has all other bytes:

    state   class 0   class 1: a, b   class 2: c
    2       0         3               0
    3       0         0               4
    4       0         0               0             accepting

Invariants: state 0 is dead, state 1 is for rows that are finished, and from all other states the end can be reached. Class 0 is
dead from every state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.nested_step import ByStep

__all__ = ["ROWS_AT_ONCE", "renumbered_table"]

# This many rows of a table are handled at once. All rows at once would take the memory of several tables.
ROWS_AT_ONCE = 2**11


def renumbered_table(step: NDArray[np.int32], rows: NDArray[np.int64], means: ByStep) -> NDArray[np.int32]:
    """Return some rows of a table with other steps.

    Args:
        step: [S, K] the table.
        rows: [N] the rows, in their new order.
        means: The new step for each old one.
    """
    found = np.empty((len(rows), step.shape[1]), np.int32)
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        some = step[rows[begin : begin + ROWS_AT_ONCE]]
        # Twice as fast as an index. Negative steps count from the end in both.
        np.take(means.values, some, out=found[begin : begin + ROWS_AT_ONCE], mode="wrap")
    return found


DEAD = 0
FINISHED = 1  # after EOS, so no byte leads there; automata over tokens have the same numbers
FIRST_STATE = 2


@dataclass(frozen=True, eq=False, slots=True)
class ByteDfa:
    """A minimal deterministic automaton over bytes.

    Args:
        step: [S, K] int32, the target of each state with each class of bytes. State 0 is dead, and state 1 is unused. From all
            other states, an accepting one can be reached.
        byte_class: [256] int64, the class of each byte; class 0 is dead from every state.
        accepting: [S] bool.
        start: The start state.
        fallback: The states that states fall back to, for automata that look for texts (`occurrences`); None: no state does.
        free: [S] bool, the states in which ids without text are legal and change nothing; None if there are none. With fallbacks,
            all states are free or none is.
        special_tokens: For some ids, mostly without text, [S] int64 the target of each state. With fallbacks, all are dead.
    """

    step: NDArray[np.int32]
    byte_class: NDArray[np.int64]
    accepting: NDArray[np.bool_]
    start: int
    fallback: Fallback | None = None
    free: NDArray[np.bool_] | None = None
    special_tokens: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)

    def run(self, text: bytes, state: int | None = None) -> int:
        """Return the state after some bytes, from the start or from a given state."""
        state = self.start if state is None else state
        for byte in text:
            state = int(self.step[state, self.byte_class[byte]])
        return state

    def accepts(self, text: bytes) -> bool:
        """Whether the whole text is in the language."""
        return bool(self.accepting[self.run(text)])


@dataclass(frozen=True, eq=False, slots=True)
class Fallback:
    """The states that states fall back to, in an automaton that looks for texts.

    The state after `ab` of the text `abc` does the same as the start state, except with `c`. So it falls back to the start state.

    Args:
        state: [S] the state that each state falls back to; the start state falls back to itself.
        goes_on: [S, K] int32, the target of each state with the bytes that continue a text, `DEAD` if they complete it; else
            `NOT_LISTED`.
    """

    state: NDArray[np.int64]
    goes_on: NDArray[np.int32]


NOT_LISTED = -1
