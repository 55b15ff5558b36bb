"""The moves of an automaton with a stack as lists, so that they can be followed backwards. Two kinds of automata have one form.

A `NestedDfa` reads the byte that closes a bracket, and then pops a frame: it *closes*. A `PushdownDfa` pops a frame first, and
then looks at the same symbol again: it *looks*. All else is alike: a symbol is read and leads to a state, and may push frames
on the way.

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
    """The symbols that are read: [N] each, ascending by symbol and then state. Further actions of a state stand at the end.

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
        end: The end. It and the frame say which state follows.
    """

    source: Ints
    symbol: Ints
    end: Ints

    @classmethod
    def none(cls) -> Pops:
        """Return an empty list."""
        return cls(*(np.zeros(0, np.int64) for _ in cls._fields))


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
        steps = _Steps.of(dfa.step)
        is_end = NestedStep.is_end(steps.does)
        source, symbol, does = steps.take(is_end)
        read = steps.take(~is_end)
        calls = NestedStep.is_call(read.does)
        return cls(
            states=dfa.states,
            symbols=dfa.step.shape[1],
            frames=dfa.frames,
            reads=_reads(read, calls, NestedStep.number(read.does[calls]), dfa.entry),
            looks=Pops.none(),
            closes=Pops(source, symbol, NestedStep.number(does)),
            pushed=tuple([(frame,) for frame in dfa.frame.tolist()]),
            after_end=dfa.return_state,
            uncounted=frozenset(np.flatnonzero(dfa.uncounted).tolist()),
        )

    @classmethod
    def of_pushdown(cls, dfa: PushdownDfa) -> StackMoves:
        """List the moves of an automaton that may look at a symbol before it reads it."""
        steps = _Steps(*map(np.append, _Steps.of(dfa.step), dfa.further.T))
        end_of, after_end = _ends(dfa)
        source, symbol, _ = steps.take((steps.does == POP) & (end_of[steps.source] != NO_END))
        read = steps.take((steps.does > DEAD) | PushdownStep.is_push(steps.does))
        pushes = PushdownStep.is_push(read.does)
        return cls(
            states=dfa.states,
            symbols=dfa.step.shape[1],
            frames=dfa.frames,
            reads=_reads(read, pushes, PushdownStep.move(read.does[pushes]), dfa.target),
            looks=Pops(source, symbol, end_of[source]),
            closes=Pops.none(),
            pushed=dfa.pushed,
            after_end=after_end,
            several=len(dfa.further) > 0,
        )


class _Steps(NamedTuple):
    """The effects of symbols in states: [N] each, in the order of `Reads`."""

    source: Ints
    symbol: Ints
    does: Ints

    @classmethod
    def of(cls, step: NDArray[np.int32]) -> _Steps:
        """List the steps of a table [S, K] that are not dead."""
        symbol, source = np.nonzero(step.T)
        return cls(source, symbol, step.T[symbol, source].astype(np.int64))

    def take(self, which: NDArray[np.bool_]) -> _Steps:
        """Return some of them."""
        return _Steps(*(column[which] for column in self))


def _reads(steps: _Steps, pushes: NDArray[np.bool_], moves: Ints, target: Ints) -> Reads:
    """Return the symbols that are read.

    Args:
        steps: Their steps.
        pushes: [N] which of the steps push frames; all others lead to a state.
        moves: The move of each step that pushes.
        target: The state that each move of the automaton leads to.
    """
    to, move = steps.does.copy(), np.full(len(steps.does), NO_MOVE)
    move[pushes] = moves
    to[pushes] = target[moves]
    return Reads(steps.source, steps.symbol, to, move)


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
