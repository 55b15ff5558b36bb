"""Automata over bytes after one another: a fixed text and then a language, or a language up to a marker and then another one.

A marker may be written in several ways, because its names of special tokens may also be spelled as bytes. The tree of these
ways has a node for each beginning of the marker. While the first part is read, a state says how much of the marker the last
bytes are, and which state of the first part came before them.

By hand, for `[a-z<]*` until `<x>`: after `q<`, the state is the node `<` with the state after `q`. If `x` follows, it is the
node `<x` with the same state. If `q` follows instead, the `<` was part of the first text, so it is node 0 with the state after
`q<q`.

Invariants: the first part ends where the marker occurs first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.sorting import distinct_rows
from logitkit.compiler.bytes.special_tokens import free_states, special_token_targets, special_tokens_of
from logitkit.compiler.bytes.transition_columns import starts
from logitkit.limits import Limits
from logitkit.vocabulary.marker_symbol import MarkerSymbol
from logitkit.vocabulary.ranges import expand
from logitkit.vocabulary.text_with_names import Symbols, TextWithNames

__all__ = ["WaysRead"]


@dataclass(frozen=True, eq=False, slots=True)
class WaysRead:
    """The tree of all ways to write a marker. Node 0 is the empty beginning, and each node comes after its parent.

    Args:
        parent: The parent of each node.
        symbol: The symbol that leads from the parent to the node.
        depth: How many symbols the node has.
        jump: A node before it on the same way, so that any node on the way is found in a few jumps.
        moves: For each node, the node after each symbol that does not lead to node 0.
        open: The nodes in which the marker is not complete.
    """

    parent: list[int]
    symbol: list[int]
    depth: list[int]
    jump: list[int]
    moves: list[dict[int, int]]
    open: list[int]

    @classmethod
    def of(cls, ways: Iterable[Symbols], limits: Limits) -> WaysRead:
        """Build the tree of a marker that may be written in these ways.

        Raises:
            PatternTooLarge: There are more nodes than states are allowed.
        """
        parent, symbols, depth, jump, ends = [0], [0], [0], [0], set()
        child: list[dict[int, int]] = [{}]
        for way in ways:
            node = 0
            for symbol in way:
                following = child[node].get(symbol)
                if following is None:
                    following = child[node][symbol] = len(child)
                    parent.append(node)
                    symbols.append(symbol)
                    depth.append(depth[node] + 1)
                    far = jump[node]
                    # Two jumps of equal length and a step make one jump, as in a skew-binary list.
                    equal = depth[node] - depth[far] == depth[far] - depth[jump[far]]
                    jump.append(jump[far] if equal else node)
                    child.append({})
                    limits.check_states(len(child))
                node = following
            ends.add(node)
        moves: list[dict[int, int]] = [{} for _ in child]
        fallback = [0] * len(child)
        order = [0]
        # Level by level: the node that a node falls back to is shorter, so its moves are known.
        for node in order:
            below = moves[fallback[node]] if node else {}
            moves[node] = {**below, **child[node]}
            for symbol, following in child[node].items():
                fallback[following] = below.get(symbol, 0)
                order.append(following)
        return cls(parent, symbols, depth, jump, moves, [node for node in range(len(child)) if node not in ends])

    @property
    def last(self) -> int:
        """The last node."""
        return len(self.parent) - 1

    def dropped(self, node: int, reached: int) -> int:
        """Return the node of the first symbols, which drop out of the marker when a symbol leads from one node to another."""
        count = self.depth[node] + 1 - self.depth[reached]
        while self.depth[node] > count:
            far = self.jump[node]
            node = far if self.depth[far] >= count else self.parent[node]
        return node


Bytes = NDArray[np.int64]


def anything() -> ByteDfa:
    """Return the automaton of all texts; ids without text are free."""
    step = np.full((FIRST_STATE + 1, 1), FIRST_STATE, np.int32)
    step[:FIRST_STATE] = DEAD
    live = np.array([False, False, True])
    return ByteDfa(step, np.zeros(256, np.int64), live, FIRST_STATE, free=live)


def after_text(text: bytes, rest: ByteDfa, limits: Limits) -> ByteDfa:
    """Return the automaton of a text followed by any text of `rest`.

    Raises:
        PatternTooLarge: There are more states than allowed.
    """
    first = len(rest.step)
    limits.check_states(first + len(text))
    byte_class, (columns,) = common_byte_classes([rest.byte_class], text)
    step = np.zeros((first + len(text), len(columns)), np.int32)
    step[:first] = rest.step[:, columns]
    begin = np.arange(first, first + len(text))
    step[begin, byte_class[np.frombuffer(text, np.uint8)]] = np.append(begin[1:], rest.start)[: len(text)]
    nothing = np.zeros(len(text), bool)
    return ByteDfa(
        step,
        byte_class,
        np.concatenate([rest.accepting, nothing]),
        first if text else rest.start,
        free=None if rest.free is None else np.concatenate([rest.free, nothing]),
        special_tokens={
            t: np.concatenate([target, np.zeros(len(text), np.int64)]) for t, target in rest.special_tokens.items()
        },
    )


def until_marker(first: ByteDfa, marker: TextWithNames, second: ByteDfa, limits: Limits) -> ByteDfa:
    """Return the automaton of a text of `first`, the marker, and a text of `second`.

    Args:
        first: The part before the marker.
        marker: The marker, which is not empty and is given as bytes.
        second: The part after the marker.
        limits: Bounds on the result, before states that lead nowhere are left out.

    Raises:
        PatternTooLarge: A limit is exceeded.
    """
    count, base = len(first.step), len(second.step)
    byte_class, (own, others) = common_byte_classes([first.byte_class, second.byte_class], marker.encoded)
    special_tokens = sorted({*special_tokens_of(first, second), *marker.tokens})
    entries = count * (len(own) + len(special_tokens)) // 4
    # A long marker is refused before its tree is built, which has at least as many nodes as the marker has bytes.
    limits.check_work(entries * len(marker.encoded))
    tree = WaysRead.of(marker.ways(), limits)
    limits.check_work(entries * len(tree.open))
    states = base + count * len(tree.open)
    read = first.step[:, own]
    does = {special_token: special_token_targets(first, special_token) for special_token in special_tokens}
    # For each node, the state of the first part after the node's symbols, from each state.
    after = [np.arange(count)]
    for node in range(1, tree.last + 1):
        before, symbol = after[tree.parent[node]], tree.symbol[node]
        is_byte = MarkerSymbol.is_byte(symbol)
        target = read[before, byte_class[symbol]] if is_byte else does[MarkerSymbol.token_id(symbol)][before]
        after.append(target.astype(np.int64))
    place = {node: base + i * count for i, node in enumerate(tree.open)}

    def leading(node: int, reached: int) -> Bytes:
        """Return the states after a symbol between two nodes. Symbols that are dropped belong to the first part."""
        at = after[tree.dropped(node, reached)]
        if reached in place:
            return np.where(at == DEAD, DEAD, place[reached] + at)
        return np.where(first.accepting[at], second.start, DEAD)

    step = np.zeros((states, len(own)), np.int32)
    step[:base] = second.step[:, others]
    targets = {special_token: [special_token_targets(second, special_token)] for special_token in special_tokens}
    for node in tree.open:
        rows = step[place[node] : place[node] + count]
        target = read[after[node]]
        rows[:] = np.where(target == DEAD, DEAD, base + target)
        moves = tree.moves[node]
        for symbol, reached in moves.items():
            if MarkerSymbol.is_byte(symbol):
                rows[:, byte_class[symbol]] = leading(node, reached)
        rows[:FIRST_STATE] = DEAD
        for special_token in special_tokens:
            named = moves.get(MarkerSymbol.token(special_token))
            if named is not None:
                leads = leading(node, named)
            else:
                target = does[special_token][after[node]]
                leads = np.where(target == DEAD, DEAD, base + target)
                if special_token not in marker.tokens:
                    # A token that does not change the state does not change how much of the marker has been read either.
                    leads = np.where((target == after[node]) & (target != DEAD), place[node] + np.arange(count), leads)
            leads[:FIRST_STATE] = DEAD
            targets[special_token].append(leads)
    accepting = np.concatenate([second.accepting, np.zeros(states - base, bool)])
    free = np.concatenate([free_states(second), *[free_states(first)] * len(tree.open)])
    joined = {special_token: np.concatenate(parts) for special_token, parts in targets.items()}
    return trimmed(ByteDfa(step, byte_class, accepting, base + first.start, free=free, special_tokens=joined), limits)


def trimmed(dfa: ByteDfa, limits: Limits) -> ByteDfa:
    """Leave out the states that are not reached from the start, and those from which no accepting state is reached.

    Raises:
        PatternTooLarge: More states than allowed are left.
    """
    source, _ = np.nonzero(dfa.step)
    source = np.concatenate([source, *(np.flatnonzero(leads) for leads in dfa.special_tokens.values())])
    target = dfa.step[dfa.step != DEAD].astype(np.int64)
    target = np.concatenate([target, *(leads[leads != DEAD] for leads in dfa.special_tokens.values())])
    count = len(dfa.step)
    live = reached(np.array([dfa.start]), source, target, count)
    live &= reached(np.flatnonzero(dfa.accepting), target, source, count)
    live[:FIRST_STATE] = False
    kept = np.flatnonzero(live)
    if not live[dfa.start]:
        # The empty language still has a start state.
        return ByteDfa(
            np.zeros((FIRST_STATE + 1, 1), np.int32), np.zeros(256, np.int64), np.zeros(3, bool), FIRST_STATE
        )
    limits.check_states(len(kept))
    number = np.zeros(count, np.int32)
    number[kept] = FIRST_STATE + np.arange(len(kept))
    dead = np.arange(FIRST_STATE)
    rows = np.concatenate([dead, kept])
    step = number[dfa.step[rows]]
    step[:FIRST_STATE] = DEAD
    accepting = dfa.accepting[rows]
    accepting[:FIRST_STATE] = False
    special_tokens = {token: number[leads[rows]].astype(np.int64) for token, leads in dfa.special_tokens.items()}
    return ByteDfa(
        step,
        dfa.byte_class,
        accepting,
        int(number[dfa.start]),
        free=free_states(dfa)[rows],
        special_tokens=special_tokens,
    )


def reached(begin: Bytes, source: Bytes, target: Bytes, count: int) -> NDArray[np.bool_]:
    """Return which of `count` states are reached from the states `begin` by some moves."""
    order = np.argsort(source, kind="stable")
    target, first = target[order], starts(np.bincount(source, minlength=count))
    seen = np.zeros(count, bool)
    seen[begin] = True
    fresh = begin
    while len(fresh):
        place, _ = expand(first[fresh], first[fresh + 1] - first[fresh])
        found = np.unique(target[place])
        fresh = found[~seen[found]]
        seen[fresh] = True
    return seen


def common_byte_classes(parts: list[Bytes], text: bytes) -> tuple[Bytes, list[Bytes]]:
    """Return common classes of bytes for several automata, in which each byte of a text has a class of its own.

    Args:
        parts: [256] the class of each byte in each automaton.
        text: The bytes.

    Returns:
        [256] the common class of each byte, and for each automaton [K] its own class for each common one.
    """
    apart = np.zeros(256, np.int64)
    distinct_bytes = sorted(set(text))
    apart[distinct_bytes] = np.arange(1, len(distinct_bytes) + 1)
    example, byte_class = distinct_rows([*parts, apart])
    return byte_class, [part[example] for part in parts]
