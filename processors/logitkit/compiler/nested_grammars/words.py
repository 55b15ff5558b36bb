"""Whole words written out as bytes: a trie of the words that each state reads, of which equal parts are one.

A state before a member of an object reads the names `"id"` and `"if"`, each of which leads somewhere. After `"i` there are two
ways on, so the state there belongs to this set of names. After `"id` only one is left: from here on the states of a name and the
place that it leads to are the same, whatever other names there were, so that all members before share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand

__all__ = ["Words"]

# Words with the states that they lead to.
Ways = frozenset[tuple[int, int]]


class Words:
    """The states inside of words.

    Args:
        texts: The words, of which none begins another one.
        first: The number of the first state inside of a word.
        limits: Bounds on the number of states.
    """

    def __init__(self, texts: Sequence[bytes], first: int, limits: Limits) -> None:
        self.texts, self.limits = texts, limits
        self.states = first
        # The first state of a word of which nothing else is left, by the word and where it leads.
        self._alone: dict[tuple[int, int], int] = {}
        self._several: dict[tuple[Ways, int], int] = {}
        self._chains: list[tuple[int, int, int]] = []
        self._moves: list[tuple[int, int, int]] = []

    def add(self, state: int, targets: Mapping[int, int]) -> None:
        """Let a state read some words.

        Args:
            state: The state.
            targets: Where each word leads.
        """
        # By hand, not by recursion, as words may have long beginnings in common.
        todo = [(state, 0, self._by_byte(frozenset(targets.items()), 0))]
        while todo:
            before, depth, groups = todo[-1]
            group = next(groups, None)
            if group is None:
                todo.pop()
                continue
            target, is_fresh = self._state_after(group, depth + 1)
            self._moves.append((before, self.texts[group[0][0]][depth], target))
            if is_fresh:
                todo.append((target, depth + 1, self._by_byte(frozenset(group), depth + 1)))

    def _by_byte(self, ways: Ways, depth: int) -> Iterator[list[tuple[int, int]]]:
        """Return some words in groups with the same byte in one place."""
        groups: dict[int, list[tuple[int, int]]] = {}
        for way in ways:
            groups.setdefault(self.texts[way[0]][depth], []).append(way)
        return iter(groups.values())

    def _state_after(self, ways: list[tuple[int, int]], depth: int) -> tuple[int, bool]:
        """Return the state after the first bytes of some words, and whether its moves must be added."""
        if len(ways) == 1:
            (way,) = ways
            first = self._alone.get(way)
            if first is None:
                word, target = way
                if depth == len(self.texts[word]):
                    return target, False
                # One state for each byte but the last; those of the first bytes may be left without use.
                first = self._alone[way] = self._new(len(self.texts[word]) - 1)
                self._chains.append((word, target, first))
            elif depth == len(self.texts[way[0]]):
                return way[1], False
            return first + depth - 1, False
        key = frozenset(ways), depth
        found = self._several.get(key)
        if found is not None:
            return found, False
        found = self._several[key] = self._new(1)
        return found, True

    def _new(self, count: int) -> int:
        found = self.states
        self.states += count
        self.limits.check_states(self.states)
        self.limits.spend(count)
        return found

    def moves(self) -> tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.int64]]:
        """Return all moves: their states, the bytes, and where they lead."""
        source, byte, target = np.array(self._moves, np.int64).reshape(-1, 3).T
        chains = [(first, len(self.texts[word]) - 1, leads) for word, leads, first in self._chains]
        first, count, leads = np.array(chains, np.int64).reshape(-1, 3).T
        inside, _ = expand(first, count)
        # All chains, one after another; the last state of each leads out of it.
        after = inside + 1
        after[np.cumsum(count) - 1] = leads
        text = np.frombuffer(b"".join([self.texts[word][1:] for word, _, _ in self._chains]), np.uint8)
        sources, targets = np.concatenate([source, inside]), np.concatenate([target, after])
        return sources, np.concatenate([byte.astype(np.uint8), text]), targets
