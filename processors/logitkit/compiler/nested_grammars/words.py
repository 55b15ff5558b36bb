"""Words written out as bytes: the states between the first byte of a name such as `"id"` and its last one.

A part reads a word in one step. An automaton over bytes needs states inside of it. The words that a state reads form a trie,
and equal parts of these tries are shared by all states. Words that lead to the same state share the states before it, too.

By hand, for the words `"id"` and `"if"`, both of which state 2 reads. The first leads to state 5, the second to state 6, and
new states begin at 10:

    2  "  10    two words are possible
    10 i  11    two words are possible
    11 d  12    only `"id"` is left: its run has one state
    11 f  13    only `"if"` is left
    12 "  5
    13 "  6

States 10 and 11 belong to this set of words. A run of states belongs to the last bytes of a word and its target, so all states
that read these bytes on the way to this target share it, whatever else they read. If both words led to state 5, both `d` and `f`
would lead to state 12. A label (`remembered_arrays`) shares states with other labels only, because these states are taken out.

Invariants: no word that a state reads is a prefix of another one. No two states of runs read the same byte and lead to the same
state, unless one belongs to a label and the other does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.nested_grammars.remembered_arrays import is_label
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["ByteMoves", "Words"]

# A word, and the state that it leads to; and several of these.
Way: TypeAlias = tuple[int, int]
Ways: TypeAlias = frozenset[Way]


class ByteMoves(NamedTuple):
    """Moves by single bytes: [N] each."""

    source: NDArray[np.int64]
    byte: NDArray[np.uint8]
    target: NDArray[np.int64]


class Words:
    """The states inside of words.

    Args:
        texts: The words. None is a prefix of another one.
        first: The number of the first state inside of a word.
        limits: Bounds on the number of states.
    """

    def __init__(self, texts: Sequence[bytes], first: int, limits: Limits) -> None:
        self.texts, self.limits = texts, limits
        self.states = self._first = first
        # The state after some bytes of a word, if no other word is possible there.
        self._known: dict[tuple[Way, int], int] = {}
        # The last run before each state, by the byte that leads to that state, and whether it belongs to labels: its first state,
        # and the bytes that it reads.
        self._runs: dict[tuple[int, int, bool], tuple[int, bytes]] = {}
        # The state for each set of words of which several are left, and the number of bytes that have been read.
        self._several: dict[tuple[Ways, int], int] = {}
        self._moves: list[tuple[int, int, int]] = []

    def add(self, state: int, targets: Mapping[int, int]) -> None:
        """Let a state read some words.

        Args:
            state: The state.
            targets: The state that each word leads to.
        """
        # A stack instead of recursion, because words may have long prefixes in common.
        todo = [(state, 0, frozenset(targets.items()))]
        while todo:
            before, depth, ways = todo.pop()
            for byte, group in self._by_byte(ways, depth):
                if len(group) == 1:
                    self._moves.append((before, byte, self._in_run(group[0], depth + 1)))
                    continue
                # Most words begin with the same byte, a quote.
                left = ways if len(group) == len(ways) else frozenset(group)
                target = self._several.get((left, depth + 1))
                if target is None:
                    target = self._several[left, depth + 1] = self._new(1)
                    todo.append((target, depth + 1, left))
                self._moves.append((before, byte, target))

    def _by_byte(self, ways: Ways, depth: int) -> Iterable[tuple[int, list[Way]]]:
        """Return the bytes of words at a depth, each with the words that have it there."""
        groups: dict[int, list[Way]] = {}
        texts = self.texts
        for way in ways:
            byte = texts[way[0]][depth]
            if byte in groups:
                groups[byte].append(way)
            else:
                groups[byte] = [way]
        return groups.items()

    def _in_run(self, way: Way, depth: int) -> int:
        """Return the state after `depth` bytes of a word, if no other word is possible there."""
        found = self._known.get((way, depth))
        if found is None:
            found = self._known[way, depth] = self._before(way[1], self.texts[way[0]], depth)
        return found

    def _before(self, state: int, text: bytes, depth: int) -> int:
        """Return the state from which a text, without some bytes at its beginning, leads to a state."""
        end, of_label = len(text), is_label(text)
        while end > depth:
            key = state, text[end - 1], of_label
            first, read = self._runs.get(key, (0, b""))
            if not read:
                first = self._new(end - depth)
                self._runs[key] = first, text[depth:end]
                return first
            shared = _common_end(read, text[max(depth, end - len(read)) : end])
            state, end = first + len(read) - shared, end - shared
        return state

    def _new(self, count: int) -> int:
        found = self.states
        self.states += count
        self.limits.check_states(self.states)
        return found

    def moves(self) -> ByteMoves:
        """Return all moves."""
        self.limits.spend(self.states - self._first)
        source, byte, target = np.array(self._moves, np.int64).reshape(-1, 3).T
        runs = [(first, len(read), leads) for (leads, _, _), (first, read) in self._runs.items()]
        first, count, leads = np.array(runs, np.int64).reshape(-1, 3).T
        inside, _ = expand(first, count)
        # Each state of a run leads to the next one, and the last one leads out of the run.
        after = inside + 1
        after[np.cumsum(count) - 1] = leads
        text = np.frombuffer(b"".join([read for _, read in self._runs.values()]), np.uint8)
        return ByteMoves(
            np.concatenate([source, inside]),
            np.concatenate([byte.astype(np.uint8), text]),
            np.concatenate([target, after]),
        )


def _common_end(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their ends."""
    count = min(len(one), len(other))
    if one[-count:] == other[-count:]:
        return count
    return next(i for i in range(count) if one[-1 - i] != other[-1 - i])
