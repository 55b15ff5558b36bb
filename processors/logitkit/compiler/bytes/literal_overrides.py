"""Literal texts that may stand where a string fragment may stand, as the listed names of an object where any name may stand.

In `{"id": 1, "x": 2}`, the quote before a name begins either the listed name `"id"` or any other name. An *override state*
follows both at once: `"i` is the beginning of `"id"` and of other names. The next byte decides:

- If both continue, as after the `d` of `"id`, it leads to another override state.
- If only the fragment continues, as after the `x` of `"ix`, it leads to a state of the fragment.
- If only the literal text continues, it leads to a state of that text.
- If both end, the text must be excluded from the fragment. Otherwise, two continuations would be possible at once.

So an override state does the same as a state of the fragment, its *base state*, but for a few texts. The effects of tokens there
follow from those in the base state.

Invariants: an override state is a triple: the state of the literal texts, the node of the excluded texts, and its base state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits

__all__ = [
    "OVERLAPPING_BRACKET",
    "BracketsOverlap",
    "Excluded",
    "OverrideStates",
    "literal_overrides",
]

Ints = NDArray[np.int64]

OVERLAPPING_BRACKET = "where a bracket begins a call it must begin nothing else"

# An override state: the state of a text, the node of excluded texts, and the state of the fragment.
Key = tuple[int, int, int]


class BracketsOverlap(ConfigurationError):
    """A bracket, or another byte, begins a call, and other text that cannot be followed beside it."""


class Excluded:
    """The texts that are excluded from fragments, in tries. Node 0 stands for "no excluded text begins like this".

    Args:
        byte_class: [256] the class of each byte. Different bytes of these texts have different classes.

    Attributes:
        rows: For each node, the next node for each class of bytes.
        full: For each node, whether a text is complete.
    """

    def __init__(self, byte_class: Ints) -> None:
        self._class_of: list[int] = byte_class.tolist()
        self.rows: list[dict[int, int]] = [{}]
        self.full = [False]

    def add(self, texts: Sequence[bytes]) -> int:
        """Add texts, and return the root of their trie, or 0 for an empty list."""
        if not texts:
            return 0
        root = self._node()
        for text in texts:
            node = root
            for byte in text:
                row = self.rows[node]
                node = row[self._class_of[byte]] if self._class_of[byte] in row else self._node()
                row[self._class_of[byte]] = node
            self.full[node] = True
        return root

    def _node(self) -> int:
        self.rows.append({})
        self.full.append(False)
        return len(self.rows) - 1


class OverrideStates(NamedTuple):
    """The override states of an automaton.

    Args:
        step: [N, K] their rows. They are numbered after the states of the given table.
        base_state: [N] the base state of each.
        entered: For each place where literal texts and a fragment begin, the state after the quote.
    """

    step: NDArray[np.int32]
    base_state: Ints
    entered: Ints


def literal_overrides(
    step: NDArray[np.int32],
    first_instance: int,
    excluded: Excluded,
    places: Sequence[Key],
    limits: Limits,
) -> OverrideStates:
    """Find override states.

    Args:
        step: [S, K] the table of all other states (`NestedStep`).
        first_instance: The first state of the instances of fragments. All states from it on belong to instances.
        excluded: The texts that are excluded from fragments.
        places: For each place where literal texts and a fragment begin, three numbers: the state of the literal texts after the
            quote, or 0 if there are none; the root of the excluded texts; and the first state of the instance.
        limits: Bounds on the number of states.

    Raises:
        BracketsOverlap: A literal text also belongs to the fragment.
        PatternTooLarge: There are too many states.
    """
    if not places:
        return OverrideStates(np.zeros((0, step.shape[1]), np.int32), np.zeros(0, np.int64), np.zeros(0, np.int64))
    if not all(NestedStep.is_state(text) for text, _, _ in places):
        raise overlap()
    search = _Search(step, first_instance, excluded)
    fresh = {*places}
    while fresh:
        level = search.numbered(fresh)
        limits.check_states(len(step) + len(search.number))
        limits.spend(1 + len(level) * step.shape[1] // 8)
        fresh = search.following(level)
    return search.found(places)


class _Search:
    """The override states that have been met. Only the bytes with which they differ from their base states are looked at."""

    def __init__(self, step: NDArray[np.int32], first_instance: int, excluded: Excluded) -> None:
        self.step, self.first_instance, self.excluded = step, first_instance, excluded
        self.number: dict[Key, int] = {}
        # The steps of all states outside of instances, one after another.
        width = step.shape[1]
        at = np.flatnonzero(step[:first_instance].ravel() != DEAD)
        self._begin: list[int] = np.searchsorted(at, np.arange(first_instance + 1) * width).tolist()
        self._classes: list[int] = (at % width).tolist()
        self._targets: list[int] = step.ravel()[at].tolist()
        # The steps of the states of fragments, and the classes of the bytes that end them.
        self._fragments: dict[int, tuple[list[int], set[int]]] = {}
        # The steps with which override states differ from their base states: the state, the class of bytes, and the step.
        self._cells: list[tuple[Key, int, Key | int]] = []

    def numbered(self, fresh: set[Key]) -> list[Key]:
        """Number the states that are new, and return them."""
        level = sorted([key for key in fresh if key not in self.number])
        self.number.update(zip(level, range(len(self.number), len(self.number) + len(level)), strict=False))
        return level

    def following(self, level: list[Key]) -> set[Key]:
        """Find the steps with which some states differ from their base states; return the override states that they lead to."""
        cells, rows, full = self._cells, self.excluded.rows, self.excluded.full
        fresh: set[Key] = set()
        for key in level:
            text, node, fragment = key
            begin, end = self._begin[text], self._begin[text + 1]
            symbols, targets = self._classes[begin:end], self._targets[begin:end]
            listed = rows[node]
            does, ends = self._fragment(fragment)
            for symbol in listed:
                if symbol not in symbols:
                    symbols.append(symbol)
                    targets.append(DEAD)
            for symbol, target in zip(symbols, targets, strict=True):
                after = does[symbol]
                if after == DEAD:
                    cells.append((key, symbol, target))
                elif symbol not in ends:
                    if not NestedStep.is_state(target):
                        raise overlap()
                    both = target, listed.get(symbol, 0), after
                    fresh.add(both)
                    cells.append((key, symbol, both))
                elif target != DEAD and not full[node]:
                    raise overlap()
            if full[node]:
                reads = dict(zip(symbols, targets, strict=True))
                cells += [(key, symbol, reads.get(symbol, DEAD)) for symbol in ends]
        return fresh

    def _fragment(self, state: int) -> tuple[list[int], set[int]]:
        """Return the row of a state of a fragment, and the classes of bytes that end the fragment there."""
        found = self._fragments.get(state)
        if found is None:
            row = self.step[state]
            ends = np.flatnonzero((row != DEAD) & (row < self.first_instance))
            found = self._fragments[state] = row.tolist(), {*ends.tolist()}
        return found

    def found(self, places: Sequence[Key]) -> OverrideStates:
        """Return the states."""
        number, states = self.number, len(self.step)
        base_state = np.array([fragment for _, _, fragment in number], np.int64)
        step = self.step[base_state]
        cells = [
            (number[key], symbol, does if isinstance(does, int) else states + number[does])
            for key, symbol, does in self._cells
        ]
        row, symbol, does = np.array(cells, np.int64).reshape(-1, 3).T
        step[row, symbol] = does
        return OverrideStates(step, base_state, states + np.array([number[place] for place in places], np.int64))


def overlap() -> BracketsOverlap:
    """Return the error for a text that belongs to a fragment and is a literal text too."""
    return BracketsOverlap("a text belongs to a string and to another text that begins in the same place")
