"""Group the tokens that act alike on every state of an automaton.

The *behaviour* of a token (or of a prefix of one) says where it leads from each state. It is kept as a default target plus
exceptions, so that automata in which most states fall back to one ("contains ...", banned strings) stay as small as those in
which most states die. What a prefix followed by a byte does depends only on the prefix's behaviour and the byte's class; so per
level of the trie it is enough to step each distinct pair of these once, for all states at once.

Source: the transition monoid of the automaton, restricted to the vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.behaviours import Behaviours, Ints, merge, of_bytes, then_byte
from logitkit.automata.byte_dfa import ByteDfa
from logitkit.automata.limits import Limits
from logitkit.automata.trie import Trie

# From this share of live prefixes on, a whole level is handled at once, without looking up where the live ones are.
WHOLE_LEVEL = 1 / 4


@dataclass(frozen=True, eq=False, slots=True)
class TokenClasses:
    """The classes of a vocabulary's tokens: `class_of` [V] int64, and what each class does; class 0 is always death."""

    class_of: NDArray[np.int64]
    behaviours: Behaviours


def token_classes(dfa: ByteDfa, trie: Trie, size: int, limits: Limits) -> TokenClasses:
    """Compute the classes of all tokens, level by level of the trie.

    Args:
        dfa: The automaton over bytes.
        trie: The tokens.
        size: Number of token ids; ids without text are in class 0.
        limits: Bound on the work, counted in exceptions.

    Returns:
        The class of every token, and the behaviour of every class. Class 0 is dead from every state.

    Raises:
        PatternTooLarge: There are too many exceptions.
    """
    step, width = dfa.step, dfa.step.shape[1]
    byte_class = dfa.byte_class.astype(np.int32)
    limits.check_work(step.size // 2)
    level, behaviour_of_class = merge(of_bytes(dfa), len(step))
    first, last = trie.level(1)
    nodes: Ints = np.arange(first, last)
    behaviour = behaviour_of_class[byte_class[trie.byte[first:last]]].astype(np.int32)
    # Behaviours of all prefixes, numbered through the levels; those of whole tokens become the classes.
    levels, offset, work = [level], 0, step.size // 4 + len(level.source)
    behaviour_at = np.zeros(len(trie), np.int32)
    depth = 1
    while True:
        alive = np.flatnonzero(behaviour)
        whole = len(alive) > WHOLE_LEVEL * (last - first)
        if whole and len(behaviour) == last - first:
            behaviour_at[first:last] = np.where(behaviour > 0, behaviour + offset, 0)
        else:
            nodes, behaviour = nodes[alive], behaviour[alive]
            behaviour_at[nodes] = behaviour + offset
        depth += 1
        if not len(alive) or depth == trie.depth:
            break
        before, (first, last) = first, trie.level(depth)
        if whole:
            if len(behaviour) < len(trie.byte[before:first]):
                spread = np.zeros(first - before, np.int32)
                spread[nodes - before] = behaviour
                behaviour = spread
            nodes = np.arange(first, last)
            above = behaviour[trie.parent[first:last] - before]
            symbol = byte_class[trie.byte[first:last]]
        else:
            nodes, parent = trie.children_of(nodes)
            above = behaviour[parent]
            symbol = byte_class[trie.byte[nodes]]
        pairs, pair_of = _unique_small(above * width + symbol, len(level) * width)
        stepped = then_byte(dfa, level, pairs // width, pairs % width)
        work += len(stepped.source) + len(pairs)
        limits.check_work(2 * work)
        offset += len(level)
        level, merged = merge(stepped, len(step))
        levels.append(level)
        behaviour = merged[pair_of].astype(np.int32)
    return _classes(trie, size, behaviour_at, levels, len(step))


def _classes(trie: Trie, size: int, behaviour_at: Ints, levels: list[Behaviours], states: int) -> TokenClasses:
    """Keep the behaviours that whole tokens have, once each."""
    used, which = _unique_small(behaviour_at[trie.node_of_token], int(behaviour_at.max()) + 1)
    parts, begin = [], 0
    for level in levels:
        here = used[(used >= begin) & (used < begin + len(level))]
        parts.append(level.take(here - begin))
        begin += len(level)
    behaviours, number = merge(Behaviours.joined(parts), states)
    class_of = np.zeros(size, np.int64)
    class_of[trie.tokens] = number[which]
    return TokenClasses(class_of, behaviours)


def _unique_small(values: Ints, bound: int) -> tuple[Ints, Ints]:
    """`np.unique(values, return_inverse=True)` without the sort where the bound is small, as it is on most levels."""
    if bound > 16 * len(values) + 1024:
        unique, inverse = np.unique(values, return_inverse=True)
        return unique, inverse.ravel()
    seen = np.zeros(bound, bool)
    seen[values] = True
    return np.flatnonzero(seen), (np.cumsum(seen, dtype=np.int32) - 1)[values]
