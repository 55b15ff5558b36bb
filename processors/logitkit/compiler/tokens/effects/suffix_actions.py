"""The actions of token suffixes: of the rest of a token after a string or a bracket that it closes.

There are few different suffixes, such as `,` and `},`, and few states that may follow a string or a bracket. So the action of
each suffix in each of these states is found once for an automaton, and looked up for thousands of tokens.

By hand, for `{"a": <string>, "b": 1}`: two states may follow, the one after the string, in which `,` is legal, and the one after
the object. The suffix `,` leads from the first to the state before `"b"`, and is dead in the second.

A suffix may close a further bracket itself, as `},` does. Then it pops a frame, and a shorter suffix continues: a comma.

Invariants: suffix 0 is empty and stays in every state. Shorter suffixes are done first.
"""

from __future__ import annotations

from bisect import bisect_right
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import spend
from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.sorting import distinct, examples, looked_up, stable_order
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.trie_walk import TrieWalk
from logitkit.compiler.tokens.effects.walked_prefixes import Popped, WalkStarts
from logitkit.vocabulary.token_suffixes import TokenSuffixes
from logitkit.vocabulary.trie import Trie

__all__ = ["SuffixActions"]

Ints = NDArray[np.int64]

# The most bytes that are kept for one vocabulary. Walks close brackets at a few dozen nodes of its trie.
REMEMBERED_BYTES = 4 * 2**20

_known: WeakKeyDictionary[TokenSuffixes, BoundedCache[tuple[bool, int], tuple[Ints, Ints]]] = WeakKeyDictionary()
_lock = Lock()


class SuffixActions:
    """The actions of all suffixes in some states.

    Args:
        dfa: The automaton.
        exits: The exits of fragments: states that follow them, or ends of the automaton (`NestedStep`).
        token_suffixes: The suffixes of the vocabulary.
        walk: Follows the suffixes.
        actions: Gives numbers to their actions.
    """

    def __init__(
        self, dfa: NestedDfa, exits: Ints, token_suffixes: TokenSuffixes, walk: TrieWalk, actions: ActionNumbering
    ) -> None:
        self.dfa, self.token_suffixes, self.actions = dfa, token_suffixes, actions
        states = distinct(np.concatenate([exits, dfa.return_state.ravel()]))
        states = states[states > DEAD]
        found, popped = walk.follow(token_suffixes.trie, WalkStarts.at_root(states))
        # The action of each suffix, by state. Most are dead and not listed.
        self._by_suffix: dict[int, dict[int, int]] = {0: {state: state for state in states.tolist()}}
        for state, text, action in zip(*(column.tolist() for column in found), strict=True):
            self._by_suffix.setdefault(text + 1, {})[state] = action
        self._ends = dfa.after_ends()
        self._pops: dict[tuple[int, int, int], int] = {}
        self._add_popped(popped)
        self._size = len(token_suffixes)
        pairs = [(s * self._size + r, o) for r, row in self._by_suffix.items() for s, o in row.items() if o != DEAD]
        spend(len(pairs))
        pairs.sort()
        self._keys = np.array([key for key, _ in pairs], np.int64)
        self._values = np.array([value for _, value in pairs], np.int64)
        # Whether each suffix leads anywhere after each end.
        state, rest = np.divmod(self._keys, self._size)
        self._goes_on = np.zeros((len(dfa.return_state), self._size), bool)
        for end, row in enumerate(dfa.return_state):
            after_end = np.zeros(dfa.states, bool)
            after_end[row] = True
            self._goes_on[end, rest[after_end[state]]] = True
            # If a state after the end is an end itself, only `pop` knows.
            self._goes_on[end] |= bool(dfa.returns) and bool(after_end[[*dfa.returns]].any())

    def _add_popped(self, popped: Popped) -> None:
        columns = self.expanded(self.token_suffixes.trie, popped, None)
        # After the frame, a shorter suffix continues, so shorter ones are done first.
        order = stable_order(self.token_suffixes.length[columns[1] + 1])
        for source, text, end, rest, height in zip(*(column[order].tolist() for column in columns), strict=True):
            # Most suffixes are dead in all states, so they are not listed, and `pop` would find nothing.
            action = self.pop(end, rest, height) if rest in self._by_suffix or self.dfa.returns else DEAD
            if action != DEAD:
                self._by_suffix.setdefault(text + 1, {})[source] = action

    def expanded(self, trie: Trie, popped: Popped, tokens: TokenSuffixes | None) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """Return for each text that closes a bracket: the walk, its id, the end, the suffix after the bracket, and the height.

        Args:
            trie: The texts.
            popped: Where walks close a bracket that was open before.
            tokens: The suffixes, if the texts are tokens; None if the texts are suffixes themselves.
        """
        nodes = popped.node.tolist()
        if not nodes:
            return popped.source, popped.node, popped.end, popped.node, popped.height
        parts = [_left_below(self.token_suffixes, trie, tokens is not None, node) for node in nodes]
        owner = np.arange(len(parts)).repeat([len(text) for text, _ in parts])
        text, rest = (np.concatenate(column) for column in zip(*parts, strict=True))
        return popped.source[owner], text, popped.end[owner], rest, popped.height[owner]

    def pop(self, end: int, rest: int, height: int) -> int:
        """Return the number of the action of an end after which a suffix continues."""
        found = self._pops.get((end, rest, height))
        if found is None:
            does, returns = self._by_suffix.get(rest, {}), self.dfa.returns
            ends = self._ends[end] if does or returns else []
            leads = [(f, self.pop(returns[s], rest, 0) if s in returns else does.get(s, DEAD)) for f, s in ends]
            after_end = tuple([pair for pair in leads if pair[1] != DEAD])
            spend(1 + len(after_end))
            found = self.actions.pop(after_end)
            if height and found != DEAD:
                found = self.actions.number(self.actions.action(found)._replace(height=height))
            self._pops[end, rest, height] = found
        return found

    def pops(self, ends: Ints, suffixes: Ints, heights: Ints) -> Ints:
        """Return the numbers of the actions of some ends, each with the suffix after it; see `pop`."""
        found = np.zeros(len(ends), np.int64)
        alive = np.flatnonzero(self._goes_on[ends, suffixes])
        ends, suffixes, heights = ends[alive], suffixes[alive], heights[alive]
        place, which = examples((heights * len(self._goes_on) + ends) * self._size + suffixes)
        rows = zip(*(column[place].tolist() for column in (ends, suffixes, heights)), strict=True)
        found[alive] = np.array([self.pop(*row) for row in rows], np.int64)[which]
        return found

    def of(self, exits: Ints, token_suffixes: Ints) -> Ints:
        """Return the numbers of the actions of suffixes after exits, `DEAD` if they lead nowhere."""
        ends = NestedStep.is_end(exits)
        if ends.any():
            found = np.zeros(len(exits), np.int64)
            found[~ends] = self.of(exits[~ends], token_suffixes[~ends])
            outside = np.flatnonzero(ends)
            found[outside] = self.pops(
                NestedStep.number(exits[outside]), token_suffixes[outside], np.zeros_like(outside)
            )
            return found
        return looked_up(self._keys, self._values, exits * self._size + token_suffixes)


def _left_below(token_suffixes: TokenSuffixes, trie: Trie, are_tokens: bool, node: int) -> tuple[Ints, Ints]:
    """Return the ids of all texts below a node of their trie, and the suffix of each after that node."""
    with _lock:
        known = _known.setdefault(token_suffixes, BoundedCache(REMEMBERED_BYTES))
        found = known.get((are_tokens, node))
    if found is None:
        text = trie.tokens_below(node)
        depth = bisect_right(trie.levels, node) - 1
        if are_tokens:
            rest = token_suffixes.of_token.find(text, token_suffixes.token_length[text] - depth)
        else:
            rest = token_suffixes.of_suffix.find(text + 1, token_suffixes.length[text + 1] - depth)
        found = text, rest
        with _lock:
            known.keep((are_tokens, node), found, 8 * len(text))
    return found
