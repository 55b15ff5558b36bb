"""What tokens do to the states of an automaton: default targets plus exceptions, many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.byte_dfa import DEAD, FIRST_STATE, NOT_LISTED, ByteDfa
from logitkit.automata.ranges import expand

# Integers of any width: states are kept as narrow as they come.
Ints: TypeAlias = NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class Behaviours:
    """A compressed table of behaviours.

    Args:
        default: [C] target from the states that are not listed.
        start: [C + 1] where the exceptions of each behaviour begin.
        source: Source state of each exception, ascending within a behaviour.
        target: Its target, never the default.
    """

    default: Ints
    start: Ints
    source: Ints
    target: Ints

    def __len__(self) -> int:
        return len(self.default)

    def take(self, which: Ints) -> Behaviours:
        """Return some of the behaviours, in that order."""
        count = self.start[which + 1] - self.start[which]
        place, _ = expand(self.start[which], count)
        return Behaviours(self.default[which], starts(count), self.source[place], self.target[place])

    @classmethod
    def joined(cls, parts: Sequence[Behaviours]) -> Behaviours:
        """Put several tables after one another."""
        return cls(
            np.concatenate([p.default for p in parts]),
            starts(np.concatenate([p.start[1:] - p.start[:-1] for p in parts])),
            np.concatenate([p.source for p in parts]),
            np.concatenate([p.target for p in parts]),
        )


def of_bytes(dfa: ByteDfa) -> Behaviours:
    """Return the behaviour of every byte class: the columns of the step table.

    The commonest target is the default; with a fallback it is what the start state does, and a state lists only what it does
    otherwise than the state that it falls back to.
    """
    if dfa.fallback is None:
        columns = np.ascontiguousarray(dfa.step[FIRST_STATE:].T)
        default: Ints = np.array([np.bincount(column).argmax() for column in columns], dfa.step.dtype)
        listed = columns != default[:, None]
    else:
        columns = np.ascontiguousarray(dfa.fallback.goes_on[FIRST_STATE:].T)
        default = dfa.step[dfa.start]
        listed = (columns != NOT_LISTED) & (columns != default[:, None])
    owner, source = np.nonzero(listed)
    return Behaviours(
        default,
        starts(np.bincount(owner, minlength=len(columns))),
        (source + FIRST_STATE).astype(dfa.step.dtype),
        columns[owner, source],
    )


def then_byte(dfa: ByteDfa, table: Behaviours, which: Ints, symbol: Ints) -> Behaviours:
    """Return the behaviours `which` of a table, each followed by a byte of the class `symbol`."""
    place, owner = expand(table.start[which], table.start[which + 1] - table.start[which])
    default = dfa.step[table.default[which], symbol]
    if dfa.fallback is None:
        target = dfa.step[table.target[place], symbol[owner]]
        keep = target != default[owner]
    else:
        # A state that gets no further does from here on what it falls back to does.
        target = dfa.fallback.goes_on[table.target[place], symbol[owner]]
        keep = (target != NOT_LISTED) & (target != default[owner])
    owner = owner[keep]
    return Behaviours(
        default, starts(np.bincount(owner, minlength=len(which))), table.source[place[keep]], target[keep]
    )


def merge(table: Behaviours, states: int) -> tuple[Behaviours, Ints]:
    """Keep one of equal behaviours, the dead one as number 0.

    Args:
        table: Any behaviours over fewer than `states` states.
        states: Number of states.

    Returns:
        The distinct behaviours, and the new number of each old one.
    """
    _, chosen, merged = np.unique(digests(table, states), return_index=True, return_inverse=True)
    if not _agree(table, chosen, merged):
        chosen, merged = _group_exactly(table)
    dead = np.flatnonzero((table.default[chosen] == DEAD) & (table.start[chosen + 1] == table.start[chosen]))
    count = len(chosen)
    if len(dead):
        order = np.concatenate([dead, np.delete(np.arange(count), dead)])
        number = np.empty(count, np.int64)
        number[order] = np.arange(count)
        return table.take(chosen[order]), number[merged]
    kept = table.take(chosen)
    with_dead = Behaviours(
        np.concatenate([np.zeros(1, table.default.dtype), kept.default]),
        np.concatenate([np.zeros(1, np.int64), kept.start]),
        kept.source,
        kept.target,
    )
    return with_dead, merged + 1


def digests(table: Behaviours, states: int) -> NDArray[np.uint64]:
    """Hash each behaviour in 64 bits: the sum over its exceptions of a random number for the pair, and one for the default.

    The numbers are odd, so no exception hashes to 0 and vanishes from the sum.
    """
    sources, targets = _random_numbers(1 << max(states - 1, 1).bit_length())
    each = sources[table.source] * targets[table.target]
    running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(each, dtype=np.uint64)])
    sums: NDArray[np.uint64] = running[table.start[1:]] - running[table.start[:-1]]
    sums ^= targets[table.default] << np.uint64(1)
    return sums


@lru_cache(maxsize=4)
def _random_numbers(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0x5EED).integers(0, 2**64, (2, count), dtype=np.uint64) | np.uint64(1)


def _agree(table: Behaviours, chosen: Ints, merged: Ints) -> bool:
    """Whether every behaviour really equals the one chosen for its hash."""
    twin = chosen[merged]
    other = np.flatnonzero(twin != np.arange(len(twin)))
    return same(table, other, table, twin[other])


def same(a: Behaviours, mine: Ints, b: Behaviours, theirs: Ints) -> bool:
    """Whether each of some behaviours equals its partner in another table."""
    size = a.start[mine + 1] - a.start[mine]
    if not np.array_equal(size, b.start[theirs + 1] - b.start[theirs]):
        return False
    if not np.array_equal(a.default[mine], b.default[theirs]):
        return False
    here, _ = expand(a.start[mine], size)
    there, _ = expand(b.start[theirs], size)
    return np.array_equal(a.source[here], b.source[there]) and np.array_equal(a.target[here], b.target[there])


def _group_exactly(table: Behaviours) -> tuple[Ints, Ints]:
    """Group equal behaviours without hashes: slow, and needed only where two different ones have one hash."""
    number: dict[tuple[int, bytes, bytes], int] = {}
    chosen: list[int] = []
    merged = np.empty(len(table), np.int64)
    for i in range(len(table)):
        place = slice(table.start[i], table.start[i + 1])
        key = (int(table.default[i]), table.source[place].tobytes(), table.target[place].tobytes())
        merged[i] = number.setdefault(key, len(number))
        if len(number) > len(chosen):
            chosen.append(i)
    return np.array(chosen, np.int64), merged


def starts(count: Ints) -> NDArray[np.int64]:
    """Return where each of some consecutive runs begins, and the end of the last."""
    result = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=result[1:])
    return result
