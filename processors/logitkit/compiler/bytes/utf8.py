"""From characters to bytes: UTF-8 as a tree of decisions.

The bytes of a character lead from the root to a leaf: the class of the character. Equal subtrees are one node, so `.` needs a
handful of nodes, and Unicode's word characters a few hundred. All states of an automaton share the tree.

By hand, for a pattern that reads `é` (C3 A9) and no other character beyond ASCII: the lead byte C3 leads to a node of height 1,
which has the leaf 1 for A9 and the leaf 0, which is dead, for the other 63 continuation bytes. All other lead bytes lead to
node 0.

Invariants: node 0 is dead. Two nodes of the same height have different children.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.characters.alphabet import Alphabet

# Lead bytes and the first code point that each begins, by number of continuation bytes.
LEADS = (
    (1, np.arange(0xC2, 0xE0), (np.arange(0xC2, 0xE0) & 0x1F) << 6),
    (2, np.arange(0xE0, 0xF0), (np.arange(0xE0, 0xF0) & 0x0F) << 12),
    (3, np.arange(0xF0, 0xF5), (np.arange(0xF0, 0xF5) & 0x07) << 18),
)
FIRST_LEAD = 0xC2
# Code points below these are overlong with this many continuation bytes.
SMALLEST = {1: 0x80, 2: 0x800, 3: 0x10000}

NOWHERE = bytes(64 * 8)

# From this many runs on, a pattern is rare, and its tree is not kept.
MANY_RUNS = 4096


@dataclass(frozen=True, eq=False, slots=True)
class Beyond:
    """The characters beyond ASCII, in classes; class 0 is read by no state.

    Args:
        bounds: First code point of each run but the first, which reaches back into ASCII, as the bytes of int64.
        classes: Class of each run.
        symbols: The symbol of the alphabet for each class.
    """

    bounds: bytes
    classes: tuple[int, ...]
    symbols: list[int]

    @classmethod
    def of(cls, alphabet: Alphabet) -> Beyond:
        """Number the symbols beyond ASCII in order, so that alphabets that differ only in ASCII have the same classes."""
        cut = int(alphabet.bounds.searchsorted(0x80, side="right"))
        number = {0: 0}
        runs = [number.setdefault(symbol, len(number)) for symbol in alphabet.symbols[cut - 1 :].tolist()]
        return cls(alphabet.bounds[cut:].tobytes(), tuple(runs), [*number])


@dataclass(frozen=True, eq=False, slots=True)
class Utf8Tree:
    r"""The decisions of UTF-8 beyond ASCII. There may be several roots, whose trees share equal nodes.

    Many patterns have the same tree, such as that of `.` or of `\d`. It contains neither symbols nor states, so it is built once.

    Args:
        heights: [N] how many continuation bytes a node still expects; node 0 is dead.
        children: [N, 64] the child for each continuation byte: a leaf if the height is 1, else a node.
        shown: [N, K] the child for each kind of continuation bytes. Bytes of one kind lead to the same child in every node.
        leads: [roots, kinds] the node for each kind of lead bytes.
        byte_class: [128] the kind of each byte from 0x80 on: 0 if it leads nowhere, then the kinds of continuation bytes, and
            then those of lead bytes.
        below: For each root, the nodes below it.
    """

    heights: NDArray[np.int64]
    children: NDArray[np.int64]
    shown: NDArray[np.int64]
    leads: NDArray[np.int64]
    byte_class: NDArray[np.int64]
    below: tuple[NDArray[np.int64], ...]

    @property
    def continuations(self) -> int:
        """Number of kinds of continuation bytes."""
        count: int = self.shown.shape[1]
        return count

    @classmethod
    def of(cls, beyond: Beyond, roots: tuple[tuple[int, ...], ...]) -> Utf8Tree:
        """Return the tree whose roots lead each class of characters to a leaf, given these leaves; leaf 0 is dead."""
        make = _tree if len(beyond.classes) < MANY_RUNS else _tree.__wrapped__
        return make(beyond.bounds, beyond.classes, roots)


@lru_cache(maxsize=32)
def _tree(bounds: bytes, classes: tuple[int, ...], roots: tuple[tuple[int, ...], ...]) -> Utf8Tree:
    """Build a tree from the top, one level at a time, and merge equal nodes from the bottom."""
    builder = _Builder(np.append(0, np.frombuffer(bounds, np.int64)))
    leads = np.array([builder.root(np.array(leaf_of)[np.array(classes)]) for leaf_of in roots])
    children = np.array(builder.rows, np.int64).reshape(-1, 64)
    continuation_class, first_continuations = _kinds(np.ascontiguousarray(children.T))
    lead_class, first_leads = _kinds(np.ascontiguousarray(leads.T))
    lead_class[lead_class > 0] += len(first_continuations)
    byte_class = np.zeros(128, np.int64)
    byte_class[: len(continuation_class)] = continuation_class
    byte_class[FIRST_LEAD - 0x80 : FIRST_LEAD - 0x80 + len(lead_class)] = lead_class
    heights = np.array(builder.heights, np.int64)
    return Utf8Tree(
        heights,
        children,
        children[:, first_continuations],
        leads[:, first_leads],
        byte_class,
        tuple([_below(row, heights, children) for row in leads]),
    )


def _below(level: NDArray[np.int64], heights: NDArray[np.int64], children: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return some nodes and all nodes below them, without the dead one."""
    found = []
    while len(level):
        level = np.unique(level[level != 0])
        found.append(level)
        level = children[level[heights[level] > 1]].ravel()
    return np.unique(np.concatenate(found))


def _kinds(columns: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[int]]:
    """Group bytes with equal rows; bytes whose row is dead are of kind 0.

    Returns:
        The kind of each byte, and the first byte of each kind from 1 on.
    """
    content, width = columns.tobytes(), columns[0].nbytes
    number = {bytes(width): 0}
    kinds = [number.setdefault(content[i : i + width], len(number)) for i in range(0, len(content), width)]
    return np.array(kinds), [kinds.index(kind) for kind in range(1, len(number))]


class _Builder:
    """Gives numbers to the nodes of a tree, in the order in which they are met.

    Args:
        bounds: The first code point of each run; the first run begins at 0.
    """

    def __init__(self, bounds: NDArray[np.int64]) -> None:
        self.bounds = bounds
        self.heights = [0]
        self.rows: list[NDArray[np.int64]] = [np.zeros(64, np.int64)]
        self.known: dict[tuple[int, bytes], int] = {}

    def root(self, leaves: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the node of each lead byte, given the leaf of each run."""
        self.leaves = leaves
        return np.concatenate([self.nodes(height, first, SMALLEST[height]) for height, _, first in LEADS])

    def nodes(self, height: int, first: NDArray[np.int64], smallest: int) -> NDArray[np.int64]:
        """Return the nodes that decide the 64 ** height code points from each of `first` on."""
        span = 64**height
        bounds, leaves = self.bounds, self.leaves
        run = np.searchsorted(bounds, first, side="right") - 1
        run_end = np.append(bounds[1:], 0x110000)[run]
        uniform = (run_end >= first + span) & (first >= smallest)
        result = np.zeros(len(first), np.int64)
        for leaf in np.unique(leaves[run[uniform]]).tolist():
            result[uniform & (leaves[run] == leaf)] = self.uniform(height, leaf)
        mixed = np.flatnonzero(~uniform)
        if len(mixed):
            starts = (first[mixed, None] + np.arange(64) * (span // 64)).ravel()
            legal = (starts + span // 64 > smallest) & (starts <= 0x10FFFF)
            below = np.zeros(len(starts), np.int64)
            if height == 1:
                below[legal] = leaves[bounds.searchsorted(starts[legal], side="right") - 1]
            else:
                below[legal] = self.nodes(height - 1, starts[legal], smallest)
            result[mixed] = self.numbered(height, below.reshape(-1, 64))
        return result

    def uniform(self, height: int, leaf: int) -> int:
        """Return the node whose characters all lead to one leaf."""
        if leaf == 0:
            return 0
        below = leaf if height == 1 else self.uniform(height - 1, leaf)
        return self.numbered(height, np.full((1, 64), below, np.int64))[0]

    def numbered(self, height: int, rows: NDArray[np.int64]) -> list[int]:
        """Return the node for each row of children. Equal rows have the same node, and a dead row has node 0."""
        content = rows.tobytes()
        found: list[int] = []
        for i in range(len(rows)):
            row = content[i * len(NOWHERE) : (i + 1) * len(NOWHERE)]
            number = 0 if row == NOWHERE else self.known.setdefault((height, row), len(self.rows))
            if number == len(self.rows):
                self.rows.append(rows[i])
                self.heights.append(height)
            found.append(number)
        return found
