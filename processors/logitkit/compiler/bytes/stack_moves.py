"""The moves of an automaton with a stack as lists, so that they can be followed backwards, with one form for two automata.

A `NestedDfa` reads the byte that closes a bracket, and then pops a frame: it looks at no byte before it reads it. A `PushdownDfa`
may pop a frame first, and looks at the same symbol again after that. All else is alike: a symbol is read and leads to a state,
and may push frames on the way.

By hand, for `sum ::= item ("+" item)*` and `item ::= "1" | "(" sum ")"` as in `pushdown_dfa`, where state 2 is the start, 3 is
`item read`, 4 is `after F`, and move 0 pushes F:

    reads     2 "1" 3, 3 "+" 2, 4 ")" 3, 3 "end" FINISHED; 2 "(" 2 with move 0
    looks     3 ")" end 0
    after_end after end 0, with F popped: 4

Invariants: an end stands for all states in which the same frames may be popped, each with the same state after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.pushdown_dfa import PushdownDfa
from logitkit.compiler.bytes.pushdown_step import POP, PushdownStep

__all__ = ["NO_MOVE", "Pops", "Reads", "StackMoves"]

Ints = NDArray[np.int64]

# No frame is pushed, or popped.
NO_MOVE, NO_END = -1, -1


class Reads(NamedTuple):
    """The symbols that are read: [N] each, ascending by symbol and then state, but for what a state does besides.

    Args:
        source: The state.
        symbol: The symbol.
        target: The state after it.
        move: The move whose frames it pushes, or `NO_MOVE`.
    """

    source: Ints
    symbol: Ints
    target: Ints
    move: Ints


class Pops(NamedTuple):
    """The symbols before or after which a frame is popped: [N] each.

    Args:
        source: The state.
        symbol: The symbol.
        end: The end, which says with the frame where to go on.
    """

    source: Ints
    symbol: Ints
    end: Ints


@dataclass(frozen=True, eq=False, slots=True)
class StackMoves:
    """The moves.

    Args:
        states: The number of states.
        symbols: The number of symbols: classes of bytes, and what else the automaton reads.
        frames: The number of frames.
        reads: The symbols that are read.
        looks: The symbols that are looked at again after a frame is popped.
        closes: The symbols that are read before a frame is popped.
        pushed: For each move, the frames that it pushes, the outermost first.
        after_end: [E, F] the state after each end and frame, `DEAD` where the frame is not popped.
        several: Whether a symbol may do several things in a state.
        uncounted: The frames that do not count as nesting.
    """

    states: int
    symbols: int
    frames: int
    reads: Reads
    looks: Pops
    closes: Pops
    pushed: tuple[tuple[int, ...], ...]
    after_end: Ints
    several: bool = False
    uncounted: frozenset[int] = frozenset()

    @classmethod
    def of_nested(cls, dfa: NestedDfa) -> StackMoves:
        """List the moves of an automaton that looks at no byte before it reads it."""
        symbol, source = np.nonzero(dfa.step.T)
        does = dfa.step.T[symbol, source].astype(np.int64)
        calls, ends = NestedStep.is_call(does), NestedStep.is_end(does)
        target, move = does.copy(), np.full(len(does), NO_MOVE)
        move[calls] = NestedStep.number(does[calls])
        target[calls] = dfa.entry[move[calls]]
        reads = Reads(*(column[~ends] for column in (source, symbol, target, move)))
        return cls(
            dfa.states,
            dfa.step.shape[1],
            dfa.frames,
            reads,
            Pops(*(source[:0],) * 3),
            Pops(source[ends], symbol[ends], NestedStep.number(does[ends])),
            tuple([(frame,) for frame in dfa.frame.tolist()]),
            dfa.return_state,
            uncounted=frozenset(np.flatnonzero(dfa.uncounted).tolist()),
        )

    @classmethod
    def of_pushdown(cls, dfa: PushdownDfa) -> StackMoves:
        """List the moves of an automaton that may look at a symbol before it reads it."""
        symbol, source = np.nonzero(dfa.step.T)
        does = dfa.step.T[symbol, source].astype(np.int64)
        source, symbol, does = (np.append(a, b) for a, b in zip((source, symbol, does), dfa.further.T, strict=True))
        end_of, after_end = _ends(dfa)
        end = np.where(does == POP, end_of[source], NO_END)
        return cls(
            dfa.states,
            dfa.step.shape[1],
            dfa.frames,
            _reads(dfa, source, symbol, does),
            Pops(*(column[end != NO_END] for column in (source, symbol, end))),
            Pops(*(source[:0],) * 3),
            dfa.pushed,
            after_end,
            several=len(dfa.further) > 0,
        )


def _reads(dfa: PushdownDfa, source: Ints, symbol: Ints, does: Ints) -> Reads:
    """Return the symbols that are read, given what all symbols do in all states."""
    pushes = PushdownStep.is_push(does)
    target, move = does.copy(), np.full(len(does), NO_MOVE)
    move[pushes] = PushdownStep.move(does[pushes])
    target[pushes] = dfa.target[move[pushes]]
    reads = (does > DEAD) | pushes
    return Reads(*(column[reads] for column in (source, symbol, target, move)))


def _ends(dfa: PushdownDfa) -> tuple[Ints, Ints]:
    """Return the end of each state, `NO_END` if it pops nothing, and [E, F] the state after each end and frame."""
    end_of = np.full(dfa.states, NO_END)
    state, frame, after = (
        dfa.return_state[dfa.return_state[:, 2] != DEAD].T if len(dfa.return_state) else np.zeros((3, 0), np.int64)
    )
    first = np.flatnonzero(np.append(True, state[1:] != state[:-1])[: len(state)])
    number: dict[bytes, int] = {}
    rows: list[Ints] = []
    for a, b in pairwise([*first.tolist(), len(state)]):
        end = number.setdefault(frame[a:b].tobytes() + after[a:b].tobytes(), len(number))
        end_of[state[a]] = end
        if end == len(rows):
            row = np.zeros(dfa.frames, np.int64)
            row[frame[a:b]] = after[a:b]
            rows.append(row)
    return end_of, np.array(rows, np.int64).reshape(len(rows), dfa.frames)
