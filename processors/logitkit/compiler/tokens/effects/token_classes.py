"""Group the tokens that do the same in every state of an automaton.

The *transition column* of a token, or of a prefix of a token, says where it leads from each state. It is kept as a default target
plus exceptions. So automata in which most states do what one state does ("contains ...", banned strings) stay as small as those
in which most states are dead.

The column of a prefix followed by a byte depends only on the prefix's column and on the byte's class. So on each level of the
trie of tokens, each different pair of a column and a class is stepped once, for all states at once.

By hand, for the pattern `[ab]c` and the tokens `a`, `b`, `ac` and `bc`: `a` and `b` have the column 2 -> 3, so they are one
class. Both of the other tokens are this column and then `c`. The pair is stepped once, and gives the column 2 -> 4, so they are
one class.

Most subtrees of the trie need not be followed to their leaves: if no byte in a subtree can change the column any more, all its
tokens have this column.

Invariants: class 0 is dead everywhere. Two tokens are of one class exactly if their columns are equal.

Source: the transition monoid of the automaton, restricted to the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import took
from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.transition_columns import Ints, Moves, TransitionColumns
from logitkit.compiler.tokens.effects.column_store import ColumnStore
from logitkit.limits import Limits
from logitkit.vocabulary.ranges import expand
from logitkit.vocabulary.shapes import Shapes
from logitkit.vocabulary.trie import GROUP_OF_BYTE, Trie
from logitkit.vocabulary.vocabulary import Vocabulary

# Up to this many prefixes, a level is handled faster as a whole than by looking up its live prefixes. Looking up a prefix takes
# as long as handling `DEAR` prefixes of a whole level. The ends of tokens branch more than their beginnings, so the numbers
# differ.
SMALL_LEVEL, SMALL_LEVEL_OF_ENDS = 3000, 10_000
DEAR, DEAR_OF_ENDS = 12, 24
# On a level smaller than this, checking whether any column can still change takes as long as the next level. So only one in
# `TINY_LEVELS` of these levels is checked.
TINY_LEVEL = 600
TINY_LEVELS = 8
UNKNOWN = -1
# This many ids of the vocabulary take as long as one other step.
IDS_A_STEP = 8
ALL_GROUPS = np.uint32(2**32 - 1)


@dataclass(frozen=True, eq=False, slots=True)
class TokenClasses:
    """The classes of a vocabulary's tokens: `class_of` [V], and what each class does; class 0 is always death."""

    class_of: NDArray[np.integer]
    transitions: TransitionColumns


def token_classes(dfa: ByteDfa, vocabulary: Vocabulary, limits: Limits, sources: int | None = None) -> TokenClasses:
    """Compute the classes of all tokens, level by level of the trie.

    Args:
        dfa: The automaton over bytes.
        vocabulary: The tokens.
        limits: Bound on the work, counted in exceptions.
        sources: If not all states matter: how many of the first ones do.

    Returns:
        The class of every token, and the column of every class. Class 0 is dead from every state.

    Raises:
        PatternTooLarge: There are too many exceptions.
    """
    work = dfa.step.size // 4
    limits.check_work(2 * work)
    store = ColumnStore(Moves.of(dfa), limits, work, sources)
    found = classes_by_shape(store, dfa.byte_class, vocabulary)
    took(store.work + len(found.class_of) // IDS_A_STEP)
    return found


class Store(Protocol):
    """Columns by number, of which 0 is dead. A column can be continued by one byte."""

    @property
    def width(self) -> int:
        """Number of byte classes."""
        ...

    @property
    def table(self) -> TransitionColumns:
        """All columns so far."""
        ...

    def __len__(self) -> int: ...

    def of_bytes(self) -> Ints:
        """Return the number of the column of every byte class."""
        ...

    def then_byte(self, which: Ints, symbol: Ints) -> Ints:
        """Return the numbers of the columns `which`, each continued by a byte of the class `symbol`."""
        ...


def classes_by_shape(store: Store, byte_class: NDArray[np.int64], vocabulary: Vocabulary) -> TokenClasses:
    """Compute the classes of all tokens of a vocabulary, by their shapes if the automaton cannot distinguish more.

    Args:
        store: The columns.
        byte_class: [256] class of each byte.
        vocabulary: The tokens.
    """
    if not Shapes.suffice(byte_class):
        return classes_by_level(store, byte_class, vocabulary.trie)
    shapes = vocabulary.shapes
    found = classes_by_level(store, byte_class, shapes.trie)
    return TokenClasses(found.class_of.take(shapes.of_id), found.transitions)


def classes_by_suffix(store: Store, byte_class: NDArray[np.int64], vocabulary: Vocabulary) -> TokenClasses:
    """Compute the classes of all tokens of a vocabulary from their ends to their beginnings.

    Args:
        store: The columns; its `then_byte` puts a byte before a text.
        byte_class: [256] class of each byte.
        vocabulary: The tokens.
    """
    return classes_by_level(store, byte_class, vocabulary.reversed_trie, SMALL_LEVEL_OF_ENDS, DEAR_OF_ENDS)


def classes_by_level(
    store: Store, byte_class: NDArray[np.int64], trie: Trie, small: int = SMALL_LEVEL, dear: int = DEAR
) -> TokenClasses:
    """Compute the classes of all tokens of a trie.

    Args:
        store: The columns.
        byte_class: [256] class of each byte.
        trie: The tokens.
        small: The size up to which a level is handled as a whole.
        dear: How many prefixes of a whole level are handled in the time in which one prefix is looked up.
    """
    table = _Successors(store, byte_class)
    place_at, last_level = _levels(trie, table, small, dear)
    alive = last_level.start + np.flatnonzero(place_at[last_level])
    runs = _subtrees(trie, table, alive, place_at[alive])
    if last_level.stop > len(trie) // 8:
        # It has the type of indices, because numpy would convert another type each time that it is used as an index.
        place_of: Ints = place_at.take(trie.node_of_id).astype(np.intp)
    else:
        place_of = place_at[:0]
        nodes = np.flatnonzero(place_at[: last_level.stop])
        runs.append(_Runs(trie.first.take(nodes), trie.own.take(nodes), place_at.take(nodes)))
    run = _Runs(*map(np.concatenate, zip(*runs, strict=True)))
    used, number = table.numbered(place_of, run.place[run.length > 0])
    class_of = number.take(place_of) if len(place_of) else np.zeros(len(trie.node_of_id), number.dtype)
    class_of[trie.tokens.take(expand(run.begin, run.length)[0])] = np.repeat(number.take(run.place), run.length)
    return TokenClasses(class_of, table.store.table.take(used))


def _levels(trie: Trie, table: _Successors, small: int, dear: int) -> tuple[Ints, slice]:
    """Follow whole levels of a trie as long as this is faster than looking up single prefixes.

    Returns:
        The place of each node's column (`_Successors`), 0 for nodes that were not reached; and the last level that was reached.
    """
    place_at = np.zeros(len(trie), np.int32)
    level = slice(*(trie.level(1) if trie.depth > 1 else (1, 1)))
    place = place_at[level] = table.of_bytes.take(trie.byte[level])
    for depth in range(2, trie.depth):
        begin, end = trie.level(depth)
        if end - begin > TINY_LEVEL or not depth % TINY_LEVELS:
            onward = np.count_nonzero(trie.groups[level] & table.unsettled(place))
            if not onward or end - begin > small + dear * onward:
                break
        level = slice(begin, end)
        place = place_at[level] = table.after(place_at.take(trie.parent[level]), trie.byte[level])
    return place_at, level


class _Runs(NamedTuple):
    """Runs of tokens in the order of the trie.

    Args:
        begin: Where each begins.
        length: How many tokens it has.
        place: The place of the column of its tokens.
    """

    begin: Ints
    length: Ints
    place: Ints


def _subtrees(trie: Trie, table: _Successors, nodes: Ints, place: Ints) -> list[_Runs]:
    """Follow the subtrees of some nodes, given the places of their columns; return runs of tokens with their columns."""
    runs: list[_Runs] = []
    while True:
        # A subtree is finished if no byte in it can change the column, as inside of a string that may continue.
        onward = (trie.groups.take(nodes) & table.unsettled(place)) != 0
        rest = np.flatnonzero(~onward & (place != 0))
        runs.append(_Runs(trie.first.take(nodes[rest]), trie.below.take(nodes[rest]), place[rest]))
        onward = np.flatnonzero(onward)
        if not len(onward):
            return runs
        nodes, place = nodes[onward], place[onward]
        runs.append(_Runs(trie.first.take(nodes), trie.own.take(nodes), place))
        child = trie.children.take(nodes)
        count = trie.children.take(nodes + 1) - child
        ends = np.cumsum(count)
        nodes = np.repeat(child - ends + count, count)
        nodes += np.arange(len(nodes))
        place = table.after(np.repeat(place, count), trie.byte.take(nodes))


class _Successors:
    """The column after each column and byte class, computed when it is first asked for.

    The columns after column `n` form row `n` of a table. Here, a column is named by the *place* where its row begins, so that the
    place plus a byte class is the index of the column that follows.

    Args:
        store: The columns.
        byte_class: [256] class of each byte.
    """

    def __init__(self, store: Store, byte_class: NDArray[np.int64]) -> None:
        self.store = store
        self.width = store.width
        self.groups = np.zeros(self.width, np.uint32)
        np.bitwise_or.at(self.groups, byte_class, GROUP_OF_BYTE)
        self.symbol = byte_class
        self.of_bytes = (store.of_bytes() * self.width).astype(np.int32)[byte_class]
        self.place = np.full(2 * len(store) * self.width, UNKNOWN, np.int32)
        self.place[: self.width] = 0
        # At each place, the groups of bytes of which some may lead to another column; and the columns about which more is known
        # since these were computed.
        self._unsettled = np.full(len(self.place), ALL_GROUPS)
        self._unsettled[0] = 0
        self._learned: list[Ints] = []

    def after(self, place: Ints, byte: NDArray[np.uint8]) -> Ints:
        """Return the places of the columns at some places, each followed by a byte."""
        index = self.symbol.take(byte)
        index += place
        found = self.place.take(index)
        if found.min(initial=0) == UNKNOWN:
            # Most of the missing ones are in the rows of a few columns.
            missing = index[found == UNKNOWN]
            lowest = missing.min()
            asked = np.zeros(missing.max() + 1 - lowest, bool)
            asked[missing - lowest] = True
            self._learn(lowest + asked.nonzero()[0])
            found = self.place.take(index)
        return found

    def _learn(self, missing: Ints) -> None:
        which, symbol = np.divmod(missing, self.width)
        numbers = self.store.then_byte(which, symbol)
        size = len(self.store) * self.width
        if size > len(self.place):
            self.place = np.append(self.place, np.full(2 * size - len(self.place), UNKNOWN, np.int32))
            self._unsettled = np.append(self._unsettled, np.full(2 * size - len(self._unsettled), ALL_GROUPS))
        self.place[missing] = numbers * self.width
        self._learned.append(which)

    def unsettled(self, place: Ints) -> NDArray[np.uint32]:
        """Return for each place the groups of bytes that may lead to another column, as bits."""
        if self._learned:
            which = np.concatenate(self._learned)
            begins = np.ones(len(which), bool)
            np.not_equal(which[1:], which[:-1], out=begins[1:])
            rows = which[begins]
            reached = self.place[: len(self.store) * self.width].reshape(-1, self.width)[rows]
            groups = np.where(reached != rows[:, None] * self.width, self.groups, np.uint32(0))
            self._unsettled[rows * self.width] = np.bitwise_or.reduce(groups, axis=1)
            self._learned.clear()
        found: NDArray[np.uint32] = self._unsettled.take(place)
        return found

    def numbered(self, *places: Ints) -> tuple[Ints, Ints]:
        """Give new numbers to the columns at some places; the dead column has number 0.

        Returns:
            Their numbers in the store, and the new number of each by its place, in a type that has room for a few more.
        """
        seen = np.zeros(len(self.place), bool)
        for some in places:
            seen[some] = True
        seen[0] = True
        used = np.flatnonzero(seen)
        number = np.zeros(len(seen), np.uint8 if len(used) < 250 else np.int16 if len(used) < 2**15 - 8 else np.int32)
        number[used] = np.arange(len(used))
        return used // self.width, number
