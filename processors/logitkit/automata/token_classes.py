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

from logitkit.automata.behaviour_store import BehaviourStore
from logitkit.automata.behaviours import Behaviours, Ints, of_bytes, then_byte
from logitkit.automata.byte_dfa import ByteDfa
from logitkit.automata.limits import Limits
from logitkit.automata.trie import Trie

# From this share of live prefixes on, a whole level is handled at once, without looking up where the live ones are.
WHOLE_LEVEL = 1 / 4

# Up to so many distinct (behaviour, byte class) pairs of a level are looked up among earlier ones.
FEW = 48
UNKNOWN = -1


@dataclass(frozen=True, eq=False, slots=True)
class TokenClasses:
    """The classes of a vocabulary's tokens: `class_of` [V] int32, and what each class does; class 0 is always death."""

    class_of: NDArray[np.int32]
    behaviours: Behaviours


def token_classes(dfa: ByteDfa, trie: Trie, limits: Limits) -> TokenClasses:
    """Compute the classes of all tokens, level by level of the trie.

    Args:
        dfa: The automaton over bytes.
        trie: The tokens.
        limits: Bound on the work, counted in exceptions.

    Returns:
        The class of every token, and the behaviour of every class. Class 0 is dead from every state.

    Raises:
        PatternTooLarge: There are too many exceptions.
    """
    step, width = dfa.step, dfa.step.shape[1]
    byte_class = dfa.byte_class.astype(np.int32)
    limits.check_work(step.size // 2)
    bytes_ = of_bytes(dfa)
    work = step.size // 4 + len(bytes_.source)
    limits.check_work(work)
    store = BehaviourStore(len(step), step.dtype)
    first, last = trie.level(1)
    nodes: Ints = np.arange(first, last)
    behaviour = store.add(bytes_)[byte_class[trie.byte[first:last]]]
    behaviour_at = np.zeros(len(trie), np.int32)
    known: dict[int, int] = {}
    depth = 1
    while True:
        alive = np.flatnonzero(behaviour)
        nodes, behaviour = nodes[alive], behaviour[alive]
        behaviour_at[nodes] = behaviour
        depth += 1
        if not len(alive) or depth == trie.depth:
            break
        before, (first, last) = first, trie.level(depth)
        if len(alive) > WHOLE_LEVEL * (first - before):
            nodes = np.arange(first, last)
            above = behaviour_at[trie.parent[first:last]]
            symbol = byte_class[trie.byte[first:last]]
        else:
            nodes, parent = trie.children_of(nodes)
            above = behaviour[parent]
            symbol = byte_class[trie.byte[nodes]]
        pairs, pair_of = _unique_small(above * np.int64(width) + symbol, len(store) * width)
        # The long tail of levels has few pairs, and patterns that loop meet the same ones on every level.
        number = np.array([known.get(p, UNKNOWN) for p in pairs.tolist()] if len(pairs) <= FEW else [UNKNOWN])
        if (number == UNKNOWN).any():
            stepped = then_byte(dfa, store.table, pairs // width, pairs % width)
            work += len(stepped.source) + len(pairs)
            limits.check_work(work)
            number = store.add(stepped)
            if len(pairs) <= FEW:
                known.update(zip(pairs.tolist(), number.tolist(), strict=True))
        behaviour = number[pair_of]
    behaviour_of = behaviour_at[trie.node_of_id]
    seen = np.zeros(len(store), bool)
    seen[behaviour_of] = True
    seen[0] = True
    number = np.cumsum(seen, dtype=np.int32) - 1
    return TokenClasses(number[behaviour_of], store.take(np.flatnonzero(seen)))


def _unique_small(values: Ints, bound: int) -> tuple[Ints, Ints]:
    """`np.unique(values, return_inverse=True)` without the sort where the bound is small, as it is on most levels."""
    if bound > 16 * len(values) + 1024:
        unique, inverse = np.unique(values, return_inverse=True)
        return unique, inverse.ravel()
    seen = np.zeros(bound, bool)
    seen[values] = True
    return np.flatnonzero(seen), (np.cumsum(seen, dtype=np.int32) - 1)[values]
