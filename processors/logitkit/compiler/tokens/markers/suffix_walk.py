"""Where a text leads from the start of an automaton over tokens: byte by byte, by the tokens that are single bytes.

A token that ends a marker may leave a suffix, which need not be a token itself. But if each byte is a token, then the tokens
for its bytes, one after another, do the same as the whole suffix.

By hand: the token `</think>{"a` leaves `{"a`. So the tokens `{`, `"` and `a` are followed from the start of the automaton after
the marker.

Invariants: the frames that a text leaves open were pushed by it, because the stack is empty at the start.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.tokens.effects.action_numbering import MOST_PUSHED
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.vocabulary.trie import Trie

__all__ = ["Reached", "reached_by", "tokens_of_bytes"]


class Reached(NamedTuple):
    """The state and the stack to which a text leads.

    Args:
        state: The state.
        frames: The frames that the text leaves open, the outermost first.
        characters: The count of the state.
    """

    state: int
    frames: tuple[int, ...]
    characters: int


def tokens_of_bytes(trie: Trie, without: Collection[int] = ()) -> NDArray[np.int64] | None:
    """Return a token for each byte, [256], or None if the vocabulary lacks one for some byte.

    Args:
        trie: The tokens.
        without: Ids that do not stand for their text.
    """
    found = np.full(256, -1)
    first, last = trie.level(1) if trie.depth > 1 else (1, 1)
    nodes = first + np.flatnonzero(trie.own[first:last])
    found[trie.byte[nodes]] = trie.tokens[trie.first[nodes]]
    for token in without:
        # Another token may have the same text.
        node = int(trie.node_of_id[token])
        if first <= node < last:
            begin = int(trie.first[node])
            own = trie.tokens[begin : begin + int(trie.own[node])].tolist()
            found[trie.byte[node]] = next((other for other in own if other not in without), -1)
    return None if (found < 0).any() else found


def reached_by(texts: Sequence[bytes], automaton: TokenAutomaton, bytes_of: NDArray[np.int64]) -> list[Reached | None]:
    """Return where texts lead from the start, None where they lead nowhere.

    Args:
        texts: The texts.
        automaton: The automaton.
        bytes_of: [256] a token for each byte.
    """
    classes = automaton.class_of[bytes_of].tolist()
    known: dict[bytes, Reached | None] = {b"": Reached(automaton.start, (), 0)}
    found = []
    for text in texts:
        # Most texts lead nowhere from their first byte on, and many begin alike.
        reached = known[b""]
        for length in range(1, len(text) + 1):
            if reached is None:
                break
            prefix = text[:length]
            if prefix not in known:
                known[prefix] = _stepped(reached, automaton, classes[prefix[-1]])
            reached = known[prefix]
        found.append(reached)
    return found


def _stepped(before: Reached, automaton: TokenAutomaton, symbol: int) -> Reached | None:
    nesting, targets = automaton.nesting, automaton.targets
    frames, count = before.frames, before.characters
    target = automaton.target(before.state, symbol)
    if targets.is_action(target) and nesting.counting is not None:
        which = targets.action_number(target)
        low, high, kept, added = nesting.counting[:, which].tolist()
        if not low <= count <= high:
            return None
        if kept:
            return Reached(int(nesting.state[which]), frames, count + added)
    while targets.is_action(target):
        which = targets.action_number(target)
        if nesting.counted(frames, automaton.states) + int(nesting.height[which]) > nesting.counted_depth:
            return None
        if not nesting.rest[which]:
            frames += tuple(frame for frame in nesting.pushed[which].tolist() if frame)
            count = 0 if nesting.counting is None else int(nesting.counting[3, which])
            return Reached(int(nesting.state[which]), frames, count) if len(frames) <= MOST_PUSHED else None
        if not frames:
            return None
        target, frames = automaton.target(frames[-1], int(nesting.rest[which])), frames[:-1]
    return Reached(target, frames, 0) if target >= FIRST_STATE else None
