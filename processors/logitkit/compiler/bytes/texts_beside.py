"""Texts that begin like a leaf and stand beside it, as the listed names of an object stand beside all other names.

In `{"id": 1, "x": 2}`, the quote before a name begins either the listed name `"id"` or any other name. A state beside the leaf
follows both at once: `"i` is the beginning of `"id"` and of other names. The next byte decides:

- If both continue, as after the `d` of `"id`, it leads to another state beside the leaf.
- If only the leaf continues, as after the `x` of `"ix`, it leads to a state of the leaf.
- If only the listed text continues, it leads to a state of that text.
- If both end, the text must be excluded from the leaf. Otherwise, two continuations would be possible at once.

So a state beside a leaf does what a state of the leaf does, but for a few texts, and what tokens do there is found from that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.sorting import which_of
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits

__all__ = ["Beside", "BracketsOverlap", "CallsOverlap", "CountsOverlap", "Excluded", "texts_beside"]

Ints = NDArray[np.int64]


class CallsOverlap(ConfigurationError):
    """Calls, or a call and other text, cannot be told apart by how they begin."""


class BracketsOverlap(ConfigurationError):
    """A bracket begins a call, and other text or another call that cannot be followed beside it."""


class CountsOverlap(CallsOverlap):
    """Texts begin like those of a leaf that counts their characters."""


class Excluded:
    """The texts that are excluded from leaves, in one trie. Node 0 stands for "no excluded text begins like this".

    Args:
        byte_class: [256] class of each byte, by which the bytes of all texts are told apart.
        classes: Number of classes.
    """

    def __init__(self, byte_class: Ints, classes: int) -> None:
        self._class_of: list[int] = byte_class.tolist()
        self._rows: list[dict[int, int]] = [{}]
        self._full = [False]
        self._classes = classes

    def add(self, texts: Sequence[bytes]) -> int:
        """Add texts, and return the root of their trie, or 0 for an empty list."""
        if not texts:
            return 0
        root = self._node()
        for text in texts:
            node = root
            for byte in text:
                row = self._rows[node]
                node = row[self._class_of[byte]] if self._class_of[byte] in row else self._node()
                row[self._class_of[byte]] = node
            self._full[node] = True
        return root

    def _node(self) -> int:
        self._rows.append({})
        self._full.append(False)
        return len(self._rows) - 1

    def tables(self) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        """Return where each node goes with each class of bytes, and at which a text is complete."""
        step = np.zeros((len(self._rows), self._classes), np.int32)
        for node, row in enumerate(self._rows):
            for symbol, target in row.items():
                step[node, symbol] = target
        return step, np.array(self._full)


class Beside(NamedTuple):
    """States beside leaves.

    Args:
        step: [N, K] what each does, as in the table that was given; they are numbered behind its states.
        like: [N] the state of a leaf that each does as, but for some texts.
        entered: The state behind the quote, for each place where texts begin beside a leaf.
    """

    step: NDArray[np.int32]
    like: Ints
    entered: Ints


def texts_beside(
    step: NDArray[np.int32],
    inside: NDArray[np.bool_],
    excluded: Excluded,
    places: tuple[Ints, Ints, Ints],
    limits: Limits,
) -> Beside:
    """Find the states beside leaves.

    Args:
        step: [S, K] what each class of bytes does: numbers below `S` are states, all others something else.
        inside: [S] whether a state belongs to a copy of a leaf.
        excluded: The texts that leaves do not have.
        places: Three columns, with an entry for each place where texts begin beside a leaf: the state of these texts after their
            quote, or 0 without such texts; the root of the excluded texts; and the first state of the copy.
        limits: Bounds on the number of states.

    Raises:
        CallsOverlap: A text belongs to the leaf and to what stands beside it.
        PatternTooLarge: There are too many states.
    """
    states = np.int64(len(step))
    next_excluded, full = excluded.tables()
    nodes = np.int64(len(full))
    number: dict[int, int] = {}

    def numbered(keys: Ints) -> Ints:
        met, which = which_of(keys)
        found = [number.setdefault(key, len(number)) for key in met.tolist()]
        limits.check_states(int(states) + len(number))
        return (states + np.array(found, np.int64))[which]

    text, node, leaf = places
    entered = numbered((text * nodes + node) * states + leaf)
    rows: list[NDArray[np.int32]] = []
    likes: list[Ints] = []
    done = 0
    while done < len(number):
        keys = np.array([*number][done:], np.int64)
        done = len(number)
        keys, leaf = np.divmod(keys, states)
        text, node = np.divmod(keys, nodes)
        limits.spend(1 + len(leaf) * step.shape[1] // 8)
        of_text, of_node, of_leaf = step[text], next_excluded[node], step[leaf]
        goes_on = of_leaf < states
        goes_on[goes_on] = inside[of_leaf[goes_on]]
        ends = (of_leaf != DEAD) & ~goes_on
        both = goes_on & ((of_text != DEAD) | (of_node != 0))
        has_text = ends & ~full[node][:, None]
        if (has_text & (of_text != DEAD)).any() or (of_text[both] >= states).any():
            raise CallsOverlap("a text belongs to a string and to another text that begins in the same place")
        row = np.where(has_text | (goes_on & ~both), of_leaf, of_text)
        row[both] = numbered((of_text[both] * nodes + of_node[both]) * states + of_leaf[both])
        rows.append(row)
        likes.append(leaf)
    found = np.concatenate(rows) if rows else np.zeros((0, step.shape[1]), np.int32)
    return Beside(found, np.concatenate(likes) if likes else np.zeros(0, np.int64), entered)
