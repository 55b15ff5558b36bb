"""Words written out as bytes: the states between the first byte of a name such as `"id"` and its last one.

A part reads a word in one step. An automaton over bytes needs states inside of it. The words that a state reads form a trie,
and equal parts of these tries are shared by all states.

By hand, for the words `"id"` and `"if"`, both of which state 2 reads. The first leads to state 5, the second to state 6, and
new states begin at 10:

    2  "  10    two words are possible
    10 i  11    two words are possible
    11 f  14    only `"if"` is left: its chain is 12, 13, 14
    11 d  17    only `"id"` is left: its chain is 15, 16, 17
    14 "  6
    17 "  5

States 10 and 11 belong to this set of words. A chain belongs to one word and its target, so all states that read this word on
the way to this target share the chain, whatever other words they read.

Invariants: no word is a prefix of another one. A chain has a state for each byte of its word but the last. So its first states
may have no use: only a state that reads `"if"` alone leads to 12.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
        self.states = first
        # The first state of each chain.
        self._chains: dict[Way, int] = {}
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
                    self._moves.append((before, byte, self._in_chain(group[0], depth + 1)))
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

    def _in_chain(self, way: Way, depth: int) -> int:
        """Return the state after `depth` bytes of a word, if no other word is possible there."""
        word, target = way
        length = len(self.texts[word])
        if depth == length:
            return target
        first = self._chains.get(way)
        if first is None:
            first = self._chains[way] = self._new(length - 1)
        return first + depth - 1

    def _new(self, count: int) -> int:
        found = self.states
        self.states += count
        self.limits.check_states(self.states)
        self.limits.spend(count)
        return found

    def moves(self) -> ByteMoves:
        """Return all moves."""
        source, byte, target = np.array(self._moves, np.int64).reshape(-1, 3).T
        chains = [(first, len(self.texts[word]) - 1, leads) for (word, leads), first in self._chains.items()]
        first, count, leads = np.array(chains, np.int64).reshape(-1, 3).T
        inside, _ = expand(first, count)
        # Each state of a chain leads to the next one, and the last one leads out of the chain.
        after = inside + 1
        after[np.cumsum(count) - 1] = leads
        text = np.frombuffer(b"".join([self.texts[word][1:] for word, _ in self._chains]), np.uint8)
        return ByteMoves(
            np.concatenate([source, inside]),
            np.concatenate([byte.astype(np.uint8), text]),
            np.concatenate([target, after]),
        )
