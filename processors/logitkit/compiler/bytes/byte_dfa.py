"""The automaton over bytes and special tokens, from which token classes are computed; and tables with other numbers of states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.nested_step import ByStep

__all__ = ["ROWS_AT_ONCE", "renumbered_table"]

# The number of rows of a table that are worked on at once. All of them at once would take the memory of several tables.
ROWS_AT_ONCE = 2**11


def renumbered_table(step: NDArray[np.int32], rows: NDArray[np.int64], means: ByStep) -> NDArray[np.int32]:
    """Return some rows of a table, in which each step is replaced by another one.

    Args:
        step: [S, K] the table.
        rows: [N] the rows that are left, in their new order.
        means: The new step for each old one.
    """
    found = np.empty((len(rows), step.shape[1]), np.int32)
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        found[begin : begin + ROWS_AT_ONCE] = means.values[step[rows[begin : begin + ROWS_AT_ONCE]]]
    return found


DEAD = 0
FINISHED = 1  # after EOS; no byte leads there, but the numbers are those of the token automaton
FIRST_STATE = 2


@dataclass(frozen=True, eq=False, slots=True)
class ByteDfa:
    """A minimal deterministic automaton over bytes.

    Args:
        step: [S, K] int32, target of each state under each class of bytes. State 0 is dead, state 1 is unused, others are live:
            an accepting state can be reached from each.
        byte_class: [256] int64, class of each byte; class 0 is dead from every state.
        accepting: [S] bool.
        start: Its start state.
        fallback: For automata that look for texts (`occurrences`): what each state falls back to, or None.
        free: [S] bool, in which states ids without text are legal and change nothing; None: in none, as a language has it.
            With fallbacks it is all or none.
        special_tokens: Tokens without text that do what other ids without text do not: [S] int64, the target of each state, by
            id. With fallbacks all targets are dead.
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
    """How the states of an automaton that looks for texts relate: each acts like a shorter one unless a text goes on.

    Args:
        state: [S] the state that each falls back to; the start state, the last resort, has itself.
        goes_on: [S, K] int32, target of each state where a text goes on (or is complete: dead), else `NOT_LISTED`.
    """

    state: NDArray[np.int64]
    goes_on: NDArray[np.int32]


NOT_LISTED = -1
