"""The automaton of a finite list of texts, which is faster to build than that of a pattern.

By hand, for `bat`, `cat` and `car`: in the trie, `t` and `r` lead to leaves, which are one state. The nodes after `ba` and `ca`
differ, as only the second one reads `r`. So the automaton has the start, the states after `b`, `c`, `ba` and `ca`, and the end.

Invariants: the result is minimal. Nodes are merged from the leaves up: two nodes of equal height are one state if both accept
or neither does, and if they have equal states below.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.transition_columns import TransitionColumns, merge, starts
from logitkit.compiler.characters.alphabet import SURROGATES
from logitkit.limits import Limits
from logitkit.patterns.syntax import Alternate, Characters, Concat, Node
from logitkit.vocabulary.ranges import expand
from logitkit.vocabulary.trie import Trie

# The cost of a byte of the longest text, in steps, however few texts there are.
STEPS_OF_LEVEL = 300


def texts_of(tree: Node) -> list[bytes] | None:
    """Return the texts of a syntax tree that is a choice of texts, in UTF-8; None for other trees."""
    if not isinstance(tree, Alternate):
        return None
    spelled: dict[Node, str] = {}
    texts = []
    for option in tree.options:
        parts = option.parts if isinstance(option, Concat) else (option,)
        text = ""
        for part in parts:
            if type(part) is not Characters:
                return None
            character = spelled.get(part) or spelled.setdefault(part, _spelled(part))
            if not character:
                return None
            text += character
        texts.append(text.encode())
    return texts


def _spelled(node: Node) -> str:
    """Return the one character that a node matches, or nothing."""
    if not isinstance(node, Characters) or len(node.charset.ranges) != 1:
        return ""
    ((first, last),) = node.charset.ranges
    return chr(first) if first == last and not SURROGATES[0] <= first <= SURROGATES[1] else ""


def word_list_dfa(texts: Sequence[bytes], limits: Limits) -> ByteDfa:
    """Build the minimal automaton that accepts exactly some texts.

    Raises:
        PatternTooLarge: There are more states than allowed, or a text is too long.
    """
    limits.check_length(max(map(len, texts), default=0), STEPS_OF_LEVEL)
    # The trie has no place for the empty text, which belongs to the root.
    trie = Trie.of([t or None for t in texts])
    count = len(trie)
    accepting = np.zeros(count, bool)
    accepting[trie.node_of_token] = True
    accepting[0] = any(not t for t in texts)
    height = np.zeros(count, np.int64)
    for depth in range(trie.depth - 1, 0, -1):
        first, last = trie.level(depth)
        np.maximum.at(height, trie.parent[first:last], height[first:last] + 1)
    state_of = np.zeros(count, np.int64)
    order = np.argsort(height, kind="stable")
    bounds = starts(np.bincount(height))
    rows, states = [], FIRST_STATE
    for h in range(len(bounds) - 1):
        nodes = order[bounds[h] : bounds[h + 1]]
        children, owner = trie.children_of(nodes)
        # To merge nodes, they are written as columns: bytes are sources, states are targets, and the default says whether it
        # accepts.
        table = TransitionColumns(
            accepting[nodes].astype(np.int64),
            starts(np.bincount(owner, minlength=len(nodes))),
            trie.byte[children].astype(np.int64),
            state_of[children],
        )
        distinct, number = merge(table)
        # Number 0 is the dead column, which no node has, as every leaf accepts.
        state_of[nodes] = states + number - 1
        states += len(distinct) - 1
        limits.check_states(states)
        rows.append(distinct)
    used = np.unique(trie.byte[1:])
    byte_class = np.zeros(256, np.int64)
    byte_class[used] = np.arange(1, len(used) + 1)
    step = np.zeros((states, len(used) + 1), np.int32)
    accepts = np.zeros(states, bool)
    first = FIRST_STATE
    for distinct in rows:
        live = np.arange(1, len(distinct))
        place, owner = expand(distinct.start[live], distinct.start[live + 1] - distinct.start[live])
        step[first + owner, byte_class[distinct.source[place]]] = distinct.target[place]
        accepts[first : first + len(live)] = distinct.default[live] == 1
        first += len(live)
    return ByteDfa(step, byte_class, accepts, int(state_of[0]))
