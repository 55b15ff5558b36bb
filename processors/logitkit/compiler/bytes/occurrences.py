"""Where texts occur in a longer text, exactly or ignoring case: one automaton that looks for all of them at once.

By hand, for the texts `abc` and `bd`: a state is the longest end of the bytes so far that is the beginning of a text. After
`xab` the state is `ab`. If `c` follows, `abc` is complete. If `d` follows instead, the state `ab` falls back to `b`, where `d`
completes `bd`.

Invariants: state 0 is the start, and every state reads every byte. A state falls back to a state of an earlier level, so with
fewer bytes.

Source: Aho and Corasick, Efficient string matching (1975).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, NOT_LISTED, ByteDfa, Fallback
from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.limits import Limits
from logitkit.patterns.case_folding import case_table
from logitkit.vocabulary.trie import Trie


def folded_occurrences(texts: Sequence[str], limits: Limits) -> Occurrences:
    """Build the automaton of texts, and of all that differ from them by case only, as with `re.IGNORECASE`.

    Args:
        texts: The texts, which are not empty and have no lone surrogates. Of texts that differ by case only, the first counts.
        limits: Bound on the number of states.

    Raises:
        PatternTooLarge: There are more states than allowed, or a text is too long.
    """
    limits.check_length(max(map(len, texts), default=0), STEPS_OF_LEVEL)
    spelled = variants(texts)
    tree = _Tree(limits)
    ends: dict[int, int] = {}
    for index, text in enumerate(texts):
        node = 0
        for character in text:
            node = tree.child(node, spelled[character])
        ends.setdefault(node, index)
    # Sort states by their number of characters, and those inside of a character by their number of bytes of it.
    level = np.array(tree.level)
    order = np.argsort(level, kind="stable")
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    source, byte, target = np.array(tree.steps).T
    source, target = number[source], number[target]
    by_source = np.argsort(source, kind="stable")
    _, first = np.unique(level[order], return_index=True)
    longest = np.full(len(order), -1, np.int64)
    longest[number[list(ends)]] = list(ends.values())
    return linked(
        [*first.tolist(), len(order)],
        source[by_source],
        byte[by_source].astype(np.uint8),
        target[by_source],
        longest,
        limits,
    )


def variants(texts: Sequence[str]) -> dict[str, tuple[bytes, ...]]:
    """Return all spellings of each character, in UTF-8; equivalent characters share one tuple."""
    equivalents = case_table(ascii_only=False).equivalents
    spelled: dict[tuple[int, ...], tuple[bytes, ...]] = {}
    found = {}
    for character in sorted(set().union(*texts)):
        same = equivalents.get(ord(character), (ord(character),))
        found[character] = spelled.setdefault(same, tuple(chr(c).encode() for c in same))
    return found


class _Tree:
    """The beginnings of texts. A level is four times the number of characters, plus the bytes of an incomplete one."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.level = [0]
        self.steps: list[tuple[int, int, int]] = []
        self._children: dict[tuple[int, bytes], int] = {}

    def child(self, node: int, spellings: tuple[bytes, ...]) -> int:
        """Return the state after one more character, in any of its spellings."""
        found = self._children.get((node, spellings[0]))
        if found is not None:
            return found
        found = self._add(self.level[node] + 4)
        for spelling in spellings:
            at = node
            for i, byte in enumerate(spelling[:-1], 1):
                inside = self._children.get((node, spelling[:i]))
                if inside is None:
                    inside = self._children[node, spelling[:i]] = self._add(self.level[node] + i)
                    self.steps.append((at, byte, inside))
                at = inside
            self.steps.append((at, spelling[-1], found))
            self._children[node, spelling] = found
        return found

    def _add(self, level: int) -> int:
        self.level.append(level)
        self.limits.check_states(len(self.level))
        return len(self.level) - 1


# The cost of a byte of the longest text, in steps, however few texts there are.
STEPS_OF_LEVEL = 200


@dataclass(frozen=True, eq=False, slots=True)
class Occurrences:
    """The automaton that remembers how much of any text the last bytes spell. State 0 is the start.

    Args:
        step: [S, K] int32, the state after each class of bytes.
        byte_class: [256] int64, the class of each byte; class 0 has the bytes that are in none of the texts.
        longest: [S] the index of the longest text that ends at each state, or -1.
        depth: [S] how many bytes of a text each state has seen; if a text is complete, the bytes of the longest one. If case is
            ignored, these are the bytes of one spelling.
        fallback: [S] the longest other state with which the bytes of each state end; itself for the start. None: states do not
            fall back.
        special_tokens: For each special token that is part of a text, [S] the state after it. All other ids without text change
            nothing.
    """

    step: NDArray[np.int32]
    byte_class: NDArray[np.int64]
    longest: NDArray[np.int64]
    depth: NDArray[np.int64]
    fallback: NDArray[np.int64] | None
    special_tokens: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)

    @classmethod
    def of(cls, texts: Sequence[bytes], limits: Limits) -> Occurrences:
        """Build the automaton of any number of texts that are not empty. Of equal texts, the first counts.

        Raises:
            PatternTooLarge: There are more states than allowed, or a text is too long.
        """
        limits.check_length(max(map(len, texts), default=0), STEPS_OF_LEVEL)
        trie = Trie.of(texts)
        longest = np.full(len(trie), -1, np.int64)
        # In reverse, so that of equal texts the first is written last.
        longest[trie.node_of_token[::-1]] = trie.tokens[::-1]
        found = linked(
            trie.levels, trie.parent[1:].astype(np.int64), trie.byte[1:], np.arange(1, len(trie)), longest, limits
        )
        sizes = np.array([*map(len, texts), 0])
        return replace(found, depth=np.where(found.longest >= 0, sizes[found.longest], found.depth))

    def without(self) -> ByteDfa:
        """Return the automaton of the texts in which none of these occurs. Ids without text are free, but for special tokens."""
        kept = self.kept()
        number = np.full(len(kept), DEAD, np.int32)
        number[kept] = FIRST_STATE + np.arange(int(kept.sum()))
        target = self.step[kept]
        step = np.zeros((FIRST_STATE + len(target), target.shape[1]), np.int32)
        step[FIRST_STATE:] = number[target]
        accepting = np.arange(len(step)) >= FIRST_STATE
        free = np.ones(len(step), bool)
        if self.fallback is None:
            nothing = np.zeros(FIRST_STATE, np.int64)
            special_tokens = {
                t: np.concatenate([nothing, number[leads[kept]]]) for t, leads in self.special_tokens.items()
            }
            return ByteDfa(step, self.byte_class, accepting, FIRST_STATE, free=free, special_tokens=special_tokens)
        # A byte continues the text of a state, and not only that of its fallback, if both lead to different states.
        below = self.step[self.fallback[kept]]
        below[0] = 0
        goes_on = np.full_like(step, NOT_LISTED)
        goes_on[FIRST_STATE:][target != below] = step[FIRST_STATE:][target != below]
        goes_on[DEAD] = DEAD
        state = np.concatenate([np.zeros(FIRST_STATE, np.int64), number[self.fallback[kept]]])
        return ByteDfa(step, self.byte_class, accepting, FIRST_STATE, Fallback(state, goes_on), free)

    def kept(self) -> NDArray[np.bool_]:
        """Return [S] the states that are reached without an occurrence. In this order, they are the live states of `without`."""
        kept = np.zeros(len(self.step), bool)
        kept[0] = True
        frontier: Ints = np.zeros(1, np.int64)
        while len(frontier):
            moves: list[Ints] = [self.step[frontier].reshape(-1)]
            moves += [leads[frontier] for leads in self.special_tokens.values()]
            reached = np.unique(np.concatenate(moves))
            frontier = reached[~kept[reached] & (self.longest[reached] < 0)]
            kept[frontier] = True
        return kept


def linked(
    levels: Sequence[int],
    source: Ints,
    byte: NDArray[np.uint8],
    target: Ints,
    longest: NDArray[np.int64],
    limits: Limits,
) -> Occurrences:
    """Add to the tree of some texts the moves of bytes that continue no text.

    Args:
        levels: The first state of each level, and then the number of states. Level 0 is the start.
        source: [E] the state before each step of a text, ascending.
        byte: [E] the byte that it reads.
        target: [E] the state after it. Several steps may lead to one state.
        longest: [S] the index of the text that ends in each state by itself, or -1; changed in place.
        limits: Bound on the number of states.

    Raises:
        PatternTooLarge: There are more states than allowed.
    """
    states = len(longest)
    limits.check_states(states)
    used = np.unique(byte)
    byte_class = np.zeros(256, np.int64)
    byte_class[used] = np.arange(1, len(used) + 1)
    symbol = byte_class[byte]
    first_step = np.searchsorted(source, np.arange(states + 1))
    entry = np.zeros(states, np.int64)
    entry[target[::-1]] = np.arange(len(target))[::-1]
    step = np.zeros((states, len(used) + 1), np.int32)
    depth = np.zeros(states, np.int64)
    fallback = np.zeros(states, np.int64)
    step[0, symbol[: first_step[1]]] = target[: first_step[1]]
    for first, last in pairwise(levels[1:]):
        nodes = np.arange(first, last)
        parent, read = source[entry[nodes]], symbol[entry[nodes]]
        depth[nodes] = depth[parent] + 1
        # The fallback of a state is where its parent's fallback leads with the same byte. Its level is earlier, so it is ready.
        fallback[nodes] = np.where(parent == 0, 0, step[fallback[parent], read])
        step[nodes] = step[fallback[nodes]]
        own = slice(first_step[first], first_step[last])
        step[source[own], symbol[own]] = target[own]
        ends = longest[nodes]
        longest[nodes] = np.where(ends >= 0, ends, longest[fallback[nodes]])
    return Occurrences(step, byte_class, longest, depth, fallback)
