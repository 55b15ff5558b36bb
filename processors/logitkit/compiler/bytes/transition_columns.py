"""Transition columns: where a byte, a token or a class of tokens leads from each state of an automaton.

A column is a default target plus exceptions. With most bytes, most states are dead, so the default is `DEAD` and few states are
exceptions. In an automaton that looks for texts, most states do what the start state does, so its target is the default.

By hand, for the pattern `[ab]c` with the states 2, 3 and 4: the column of `a` has the default 0 and the exception 2 -> 3. The
column of `ac` has the default 0 and the exception 2 -> 4.

Invariants: within a column, exceptions are ascending by state, and none has the default as its target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, NOT_LISTED, ByteDfa
from logitkit.vocabulary.ranges import expand

# Integers of any width: states are kept as narrow as they come.
Ints: TypeAlias = NDArray[Any]

# Columns with more exceptions than this on average are copied one by one.
MANY = 64

# Tables of at most this many moves are looked at as a whole.
SMALL = 2**14

# This many states of an automaton are looked at to find the commonest target.
SEEN = 512


@dataclass(frozen=True, eq=False, slots=True)
class TransitionColumns:
    """Some transition columns.

    Args:
        default: [C] the target from the states that are not listed.
        start: [C + 1] where the exceptions of each column begin.
        source: The state of each exception, ascending within a column.
        target: Its target, never the default.
    """

    default: Ints
    start: Ints
    source: Ints
    target: Ints

    def __len__(self) -> int:
        return len(self.default)

    def take(self, which: Ints) -> TransitionColumns:
        """Return some of the columns, in that order."""
        begin, end = self.start[which], self.start[which + 1]
        start = starts(end - begin)
        if start[-1] > MANY * len(which):
            slices = [slice(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
            source = np.concatenate([self.source[s] for s in slices])
            return TransitionColumns(
                self.default[which], start, source, np.concatenate([self.target[s] for s in slices])
            )
        place, _ = expand(begin, end - begin)
        return TransitionColumns(self.default[which], start, self.source[place], self.target[place])

    @classmethod
    def joined(cls, parts: Sequence[TransitionColumns]) -> TransitionColumns:
        """Put several tables after one another."""
        return cls(
            np.concatenate([p.default for p in parts]),
            starts(np.concatenate([p.start[1:] - p.start[:-1] for p in parts])),
            np.concatenate([p.source for p in parts]),
            np.concatenate([p.target for p in parts]),
        )


class TransitionEntries(NamedTuple):
    """The exceptions of columns, in any order: [N] each.

    Args:
        owner: The column of each exception.
        source: Its state.
        target: Its target.
    """

    owner: Ints
    source: Ints
    target: Ints

    @classmethod
    def of(cls, transitions: TransitionColumns) -> TransitionEntries:
        """Return the exceptions of columns, as int64."""
        owner = np.repeat(np.arange(len(transitions)), np.diff(transitions.start))
        return cls(owner, transitions.source.astype(np.int64), transitions.target.astype(np.int64))

    def take(self, which: Ints) -> TransitionEntries:
        """Return some of them."""
        return TransitionEntries(*(column[which] for column in self))


@dataclass(frozen=True, eq=False, slots=True)
class Moves:
    """The moves of an automaton: a row for each class of bytes, in 16 bits if they fit.

    Args:
        step: [K, S] the target of each state.
        goes_on: [K, S] the same, but `NOT_LISTED` where a state does what the state does that it falls back to; None: no state
            falls back.
        start: The start state.
    """

    step: Ints
    goes_on: Ints | None
    start: int

    @classmethod
    def of(cls, dfa: ByteDfa) -> Moves:
        """Transpose the tables of an automaton."""
        narrow = np.int16 if len(dfa.step) < 2**15 else np.int32
        goes_on = None if dfa.fallback is None else np.ascontiguousarray(dfa.fallback.goes_on.T, narrow)
        return cls(np.ascontiguousarray(dfa.step.T, narrow), goes_on, dfa.start)


def of_bytes(moves: Moves) -> TransitionColumns:
    """Return the column of every byte class.

    The default is the commonest target, as far as a sample of states shows. If states fall back, the default is the target of the
    start state, and a state lists only what differs from the state that it falls back to.
    """
    if moves.goes_on is None:
        columns = moves.step
        default = np.zeros(len(columns), columns.dtype)
        listed = columns != DEAD
        # The commonest target is `DEAD` in most columns; look only at those in which it may not be.
        states = columns.shape[1] - FIRST_STATE
        live = listed.sum(axis=1) if listed.size <= SMALL else np.array([*map(np.count_nonzero, listed)])
        for c in np.flatnonzero(2 * live >= states).tolist():
            common = np.bincount(columns[c, FIRST_STATE :: 1 + states // SEEN]).argmax()
            if np.count_nonzero(columns[c] == common) > states - live[c]:
                default[c] = common
                np.not_equal(columns[c], common, out=listed[c])
    else:
        columns = moves.goes_on
        default = moves.step[:, moves.start]
        listed = (columns != NOT_LISTED) & (columns != default[:, None])
    listed[:, :FIRST_STATE] = False
    if listed.size <= SMALL:
        which, source = np.nonzero(listed)
        count = np.bincount(which, minlength=len(columns))
        return TransitionColumns(default, starts(count), source.astype(columns.dtype), columns[which, source])
    # Row by row, because arrays of all exceptions at once would take new memory from the system, which costs more than the calls.
    sources = [np.flatnonzero(row).astype(columns.dtype) for row in listed]
    targets = [row.take(source) for row, source in zip(columns, sources, strict=True)]
    return TransitionColumns(
        default, starts(np.array([*map(len, sources)])), np.concatenate(sources), np.concatenate(targets)
    )


def then_byte(moves: Moves, table: TransitionColumns, which: Ints, symbol: Ints) -> TransitionColumns:
    """Return the columns `which` of a table, each followed by a byte of the class `symbol`."""
    place, owner = expand(table.start[which], table.start[which + 1] - table.start[which])
    states = moves.step.shape[1]
    default = moves.step[symbol, table.default[which]]
    # A target that is `NOT_LISTED` is dropped: from there on, the state does what the state does that it falls back to.
    step = moves.step if moves.goes_on is None else moves.goes_on
    target = step.ravel().take((symbol * states)[owner] + table.target[place])
    keep = target != default[owner]
    if moves.goes_on is not None:
        keep &= target != NOT_LISTED
    return TransitionColumns(
        default, starts(np.bincount(owner[keep], minlength=len(which))), table.source[place[keep]], target[keep]
    )


def contents(table: TransitionColumns) -> list[tuple[int, bytes]]:
    """Return the default and the exceptions of each column, as bytes; equal columns have equal contents."""
    source, target = table.source.tobytes(), table.target.tobytes()
    wide, narrow = table.source.itemsize, table.target.itemsize
    bounds = table.start.tolist()
    return [
        (default, source[wide * a : wide * b] + target[narrow * a : narrow * b])
        for default, a, b in zip(table.default.tolist(), bounds, bounds[1:], strict=False)
    ]


def merge(table: TransitionColumns) -> tuple[TransitionColumns, Ints]:
    """Keep one of each group of equal columns; the dead column has number 0.

    Returns:
        The distinct columns, and the new number of each old one.
    """
    number: dict[tuple[int, bytes], int] = {(DEAD, b""): 0}
    merged = np.array([number.setdefault(key, len(number)) for key in contents(table)], np.int64)
    dead = TransitionColumns(
        np.zeros(1, table.default.dtype), np.zeros(2, np.int64), table.source[:0], table.target[:0]
    )
    first = np.full(len(number), -1)
    first[merged[::-1]] = np.arange(len(merged))[::-1]
    return TransitionColumns.joined([dead, table.take(first[1:])]), merged


def starts(count: Ints) -> NDArray[np.int64]:
    """Return where each of some consecutive runs begins, and the end of the last."""
    result = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=result[1:])
    return result
