"""Where texts that match a pattern occur in a longer text: one automaton that looks for all patterns at once.

By hand, for the pattern `ab?c`: after `xa`, a match may have begun one byte ago. It can go on with `b` or `c`. After `xab` it
began two bytes ago, and can go on with `c` only. A match may begin at every byte, so a state is a set of *places*: for each match
that may have begun, the state of the automaton of its pattern, and how many bytes it has read. So when a match ends, its length
says where it began.

Invariants:

- No two places are in the same state of a pattern. Both would go on alike, so only the one that began first is kept.
- Nothing is followed after the end of a match.
- A match has a limited length, so there is a limited number of places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import one_budget
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.limits import Limits

__all__ = ["longest_match", "pattern_occurrences"]

# The cost of a move of one place, in steps.
STEPS_OF_PLACE = 16

# The number of a pattern and a state of its automaton; the bytes that a match has read by then are the value.
Places = dict[tuple[int, int], int]


def longest_match(dfa: ByteDfa) -> int | None:
    """Return the number of bytes of the longest text that an automaton accepts; None if there is no longest one."""
    source, symbol = np.nonzero(dfa.step >= FIRST_STATE)
    moves = np.unique(np.stack([source, dfa.step[source, symbol]], 1), axis=0)
    before = np.bincount(moves[:, 1], minlength=len(dfa.step))
    first = np.searchsorted(moves[:, 0], np.arange(len(dfa.step) + 1)).tolist()
    targets = moves[:, 1].tolist()
    length = [0] * len(dfa.step)
    waiting = [state for state in range(FIRST_STATE, len(dfa.step)) if not before[state]]
    for state in waiting:
        for target in targets[first[state] : first[state + 1]]:
            length[target] = max(length[target], length[state] + 1)
            before[target] -= 1
            if not before[target]:
                waiting.append(target)
    # The states of a circle wait for each other.
    return max(length) if len(waiting) == len(dfa.step) - FIRST_STATE else None


def pattern_occurrences(patterns: Sequence[ByteDfa], limits: Limits) -> Occurrences:
    """Build the automaton that looks for the matches of any number of patterns, of limited length and not empty.

    Of several matches that end at the same byte, the one that begins first counts, then the first pattern.

    Args:
        patterns: The automaton of each pattern.
        limits: Bounds on the states.

    Raises:
        PatternTooLarge: There are more states than allowed.
    """
    with one_budget(limits.work):
        return _PatternSearch(patterns, limits).built()


class _PatternSearch:
    def __init__(self, patterns: Sequence[ByteDfa], limits: Limits) -> None:
        self._limits = limits
        of_each = np.stack([dfa.byte_class for dfa in patterns])
        # Class 0 has the bytes that are in no match.
        nothing = np.zeros((len(patterns), 1), np.int64)
        columns, byte_class = np.unique(np.concatenate([nothing, of_each], 1), axis=1, return_inverse=True)
        self._byte_class = byte_class.reshape(-1)[1:].astype(np.int64)
        self._step = [dfa.step[:, column].tolist() for dfa, column in zip(patterns, columns, strict=True)]
        self._accepting = [dfa.accepting.tolist() for dfa in patterns]
        self._begin: Places = {(number, dfa.start): 0 for number, dfa in enumerate(patterns)}
        self._classes = columns.shape[1]

    def built(self) -> Occurrences:
        """Return the automaton."""
        moves: list[list[int]] = []
        waiting: list[Places] = [{}]
        number: dict[frozenset[tuple[tuple[int, int], int]], int] = {frozenset(): 0}
        ends: dict[tuple[int, int], int] = {}
        for places in waiting:
            row = [0] * self._classes
            for symbol in range(1, self._classes):
                after = self._after(places, symbol)
                complete = [(read, -which) for (which, state), read in after.items() if self._accepting[which][state]]
                if complete:
                    read, which = max(complete)
                    row[symbol] = -1 - ends.setdefault((-which, read), len(ends))
                    continue
                key = frozenset(after.items())
                if key not in number:
                    number[key] = len(waiting)
                    waiting.append(after)
                    self._limits.check_states(len(waiting))
                row[symbol] = number[key]
            moves.append(row)
        return self._tables(moves, waiting, [*ends])

    def _after(self, places: Places, symbol: int) -> Places:
        """Return the places after one more byte."""
        self._limits.spend(STEPS_OF_PLACE * (len(places) + len(self._begin)))
        found: Places = {}
        for known in (places, self._begin):
            for (which, state), read in known.items():
                target = self._step[which][state][symbol]
                if target != DEAD:
                    found[which, target] = max(found.get((which, target), 0), read + 1)
        return found

    def _tables(self, moves: list[list[int]], live: list[Places], ends: list[tuple[int, int]]) -> Occurrences:
        """Return moves as arrays. A complete match, with its number of bytes, is a state after all others."""
        states = len(live) + len(ends)
        step = np.zeros((states, self._classes), np.int32)
        rows: NDArray[np.int64] = np.array(moves, np.int64).reshape(len(live), -1)
        step[: len(live)] = np.where(rows >= 0, rows, len(live) - 1 - rows)
        longest, depth = np.full(states, -1, np.int64), np.zeros(states, np.int64)
        longest[len(live) :], depth[len(live) :] = np.array(ends, np.int64).reshape(-1, 2).T
        depth[: len(live)] = [max(places.values(), default=0) for places in live]
        return Occurrences(step, self._byte_class, longest, depth, None)
