"""Where texts occur in a longer text: one automaton over all of them, stepped by bytes.

Source: Aho and Corasick, Efficient string matching (1975), with the fallbacks filled in, so that each byte is one look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.behaviours import Ints
from logitkit.automata.byte_dfa import DEAD, FIRST_STATE, NOT_LISTED, ByteDfa, Fallback
from logitkit.automata.limits import Limits
from logitkit.automata.trie import Trie


@dataclass(frozen=True, eq=False, slots=True)
class Occurrences:
    """The automaton that remembers how much of any text the last bytes spell. State 0 is the start: nothing yet.

    Args:
        step: [S, K] int32, state after each class of bytes; every state goes on for ever.
        byte_class: [256] int64, class of each byte; class 0 holds the bytes of no text.
        longest: [S] index of the longest text that ends at each state, or -1.
        depth: [S] bytes of a text that each state has seen.
        fallback: [S] the longest other state that each one's bytes end with; the start for itself.
    """

    step: NDArray[np.int32]
    byte_class: NDArray[np.int64]
    longest: NDArray[np.int64]
    depth: NDArray[np.int64]
    fallback: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[bytes], limits: Limits) -> Occurrences:
        """Build the automaton of any number of texts, none of them empty; equal texts count as the first.

        Raises:
            PatternTooLarge: There are more states than allowed.
        """
        trie = Trie.of(texts)
        limits.check_states(len(trie))
        used = np.unique(trie.byte[1:])
        byte_class = np.zeros(256, np.int64)
        byte_class[used] = np.arange(1, len(used) + 1)
        symbol = byte_class[trie.byte]
        longest = np.full(len(trie), -1, np.int64)
        # In reverse, so that of equal texts the first is written last.
        longest[trie.node_of_token[::-1]] = trie.tokens[::-1]
        step = np.zeros((len(trie), len(used) + 1), np.int32)
        depth = np.zeros(len(trie), np.int64)
        fallback = np.zeros(len(trie), np.int64)
        if texts:
            first, last = trie.level(1)
            step[0, symbol[first:last]] = np.arange(first, last)
        for level in range(1, trie.depth):
            first, last = trie.level(level)
            nodes, parent = np.arange(first, last), trie.parent[first:last]
            depth[nodes] = level
            if level > 1:
                # The fallback of a state: what its parent's fallback does on the same byte. It is shorter, so its row is ready.
                fallback[nodes] = step[fallback[parent], symbol[nodes]]
            step[nodes] = step[fallback[nodes]]
            children, owner = trie.children_of(nodes)
            step[nodes[owner], symbol[children]] = children
            ends = longest[nodes]
            longest[nodes] = np.where(ends >= 0, ends, longest[fallback[nodes]])
        return cls(step, byte_class, longest, depth, fallback)

    def without(self) -> ByteDfa:
        """Return the automaton of the texts in which none of these occurs."""
        kept = self.kept()
        number = np.full(len(kept), DEAD, np.int32)
        number[kept] = FIRST_STATE + np.arange(int(kept.sum()))
        target = self.step[kept]
        step = np.zeros((FIRST_STATE + len(target), target.shape[1]), np.int32)
        step[FIRST_STATE:] = number[target]
        accepting = np.arange(len(step)) >= FIRST_STATE
        # A text goes on, rather than another one from further back, where the state gets one byte deeper.
        goes_on = np.full_like(step, NOT_LISTED)
        deeper = self.depth[target] == self.depth[kept][:, None] + 1
        goes_on[FIRST_STATE:][deeper] = step[FIRST_STATE:][deeper]
        goes_on[DEAD] = DEAD
        state = np.concatenate([np.zeros(FIRST_STATE, np.int64), number[self.fallback[kept]]])
        return ByteDfa(step, self.byte_class, accepting, FIRST_STATE, Fallback(state, goes_on))

    def kept(self) -> NDArray[np.bool_]:
        """Return which states are reached without an occurrence; those, in order, are the live states of `without`.

        A state behind an occurrence would be a dead weight in every class.
        """
        kept = np.zeros(len(self.step), bool)
        kept[0] = True
        frontier: Ints = np.zeros(1, np.int64)
        while len(frontier):
            reached = np.unique(self.step[frontier])
            frontier = reached[~kept[reached] & (self.longest[reached] < 0)]
            kept[frontier] = True
        return kept
