"""From an automaton over characters to one over bytes: characters written out as UTF-8.

A character beyond ASCII has two to four bytes, so there are states inside of it. Such a state is a pair: the state before the
character, and the bytes read so far as a node of a tree (`utf8`). Pairs that lead to the same states with the same bytes are
one state.

By hand, for the pattern `[é-ë]`, whose characters are C3 A9, C3 AA and C3 AB: state 2 reads C3 and leads to a state inside of the
character, which reads A9, AA and AB, bytes of one class, and leads to state 3.

Invariants: the result is minimal if the given automaton is.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import spend
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.sorting import which_of
from logitkit.compiler.bytes.utf8 import Beyond, Utf8Tree
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.limits import Limits

# Up to this many symbols of a move are written one by one.
FEW_SYMBOLS = 16

# A tree with more roots, or for more classes of characters, is seldom worth the time to build it.
MANY_ROOTS = 16
MANY_CLASSES = 32


def to_bytes(dfa: SymbolDfa | None, alphabet: Alphabet, limits: Limits) -> ByteDfa:
    """Write the characters of a minimal automaton out as UTF-8; the result is minimal too.

    Args:
        dfa: A minimal automaton, or None for the empty language.
        alphabet: Its alphabet.
        limits: Bounds on the number of states, and on the size of their tables.

    Raises:
        PatternTooLarge: There are too many states, or too many symbols.
    """
    if dfa is None:
        return ByteDfa(np.zeros((3, 1), np.int32), np.zeros(256, np.int64), np.zeros(3, bool), FIRST_STATE)
    limits.check_work(len(dfa.moves) * alphabet.size // 2)
    targets = symbol_targets(dfa, alphabet.size)
    alphabet, targets = without_equal_symbols(alphabet, targets)
    beyond = Beyond.of(alphabet)
    targets_beyond = targets[:, beyond.symbols]
    tree, reached, rows = _one_target(beyond, targets_beyond, limits) or _many_targets(beyond, targets_beyond, limits)
    ascii_class, ascii_symbols = ascii_classes(alphabet)
    below = 1 + len(ascii_symbols)
    byte_class = np.concatenate([ascii_class, tree.byte_class + (below - 1) * (tree.byte_class > 0)])
    continuation = slice(below, below + tree.continuations)
    states = len(targets)
    step = np.zeros((states + len(rows), continuation.stop + reached.shape[1]), np.int32)
    step[:states, 1:below] = targets[:, ascii_symbols]
    step[:states, continuation.stop :] = reached
    step[states:, continuation] = rows
    spend(len(dfa.moves) * alphabet.size // 4 + step.size // 8)
    accepting = np.zeros(len(step), bool)
    accepting[FIRST_STATE:states] = dfa.accepting
    return ByteDfa(step, byte_class, accepting, FIRST_STATE)


def symbol_targets(dfa: SymbolDfa, symbols: int) -> NDArray[np.int32]:
    """Return the moves as a matrix [states, symbols], with the numbers of the byte automaton."""
    moves: dict[int, tuple[list[int], list[int]]] = {}
    for source, row in enumerate(dfa.moves):
        for target, mask in row.items():
            sources, reached = moves.setdefault(mask, ([], []))
            sources.append(source + FIRST_STATE)
            reached.append(target + FIRST_STATE)
    targets = np.zeros((len(dfa.moves) + FIRST_STATE, symbols), np.int32)
    for mask, (sources, reached) in moves.items():
        at = np.array(sources)
        if mask.bit_count() <= FEW_SYMBOLS:
            for symbol in range(mask.bit_length()):
                if mask >> symbol & 1:
                    targets[at, symbol] = reached
        else:
            bits = np.frombuffer(mask.to_bytes(symbols // 8 + 1, "little"), np.uint8)
            among = np.flatnonzero(np.unpackbits(bits, bitorder="little"))
            targets[at[:, None], among] = np.array(reached)[:, None]
    return targets


def without_equal_symbols(alphabet: Alphabet, targets: NDArray[np.int32]) -> tuple[Alphabet, NDArray[np.int32]]:
    """Merge symbols that do the same in every state. Some remain after lookarounds and branches that lead nowhere."""
    number: dict[bytes, int] = {}
    merged = [number.setdefault(column.tobytes(), len(number)) for column in targets.T]
    if len(number) == alphabet.size:
        return alphabet, targets
    return alphabet.merged(np.array(merged)), targets[:, [merged.index(n) for n in range(len(number))]]


def ascii_classes(alphabet: Alphabet) -> tuple[NDArray[np.int64], list[int]]:
    """Return the class of each byte below 0x80, 0 for bytes that no state reads, and the symbol of each class from 1 on."""
    number = {0: 0}
    classes = [number.setdefault(symbol, len(number)) for symbol in alphabet.symbol_at(_ASCII).tolist()]
    return np.array(classes), [*number][1:]


_ASCII = np.arange(128)


# A tree; the target of each state with each kind of lead bytes; and the target of each state inside of a character with each
# kind of continuation bytes. States inside of characters are numbered after the others.
Inside = tuple[Utf8Tree, NDArray[np.int32], NDArray[np.int32]]


def _one_target(beyond: Beyond, targets: NDArray[np.int32], limits: Limits) -> Inside | None:
    """Find the states inside of characters if each state leads to only one other state with all characters beyond ASCII it reads.

    This holds for most patterns. Then a state inside of a character is a pair of a node, in a tree that knows only which
    characters are read, and the state to which the character leads. No two of these pairs are equal, so they need not be
    compared.

    Args:
        beyond: The characters.
        targets: [S, classes] the target of each state with a character of each class.
        limits: Bounds on the number of states, and on the size of their tables.

    Returns:
        The tree and the targets, or None if a state leads to several states, or if states read too many different sets of
        characters.
    """
    classes = targets.shape[1]
    if not 1 < classes <= MANY_CLASSES:
        return None
    live = targets != DEAD
    target = targets.max(axis=1)
    if classes > 2 and not np.array_equal(targets, live * target[:, None]):
        return None
    read, read_by = which_of(live @ (1 << np.arange(classes)))
    if len(read) > MANY_ROOTS:
        return None
    tree = Utf8Tree.of(beyond, tuple([tuple([r >> c & 1 for c in range(classes)]) for r in read.tolist()]))
    after, which = which_of(target)
    nodes = len(tree.heights)
    limits.check_work(len(after) * nodes // 4)
    met = np.zeros((len(after), nodes), bool)
    for root in range(len(read)):
        reached = np.zeros(len(after), bool)
        reached[which[read_by == root]] = True
        met[np.flatnonzero(reached)[:, None], tree.below[root]] = True
    where, node = np.nonzero(met)
    limits.check_states(len(targets) + len(node))
    limits.check_work(len(node) * tree.continuations)
    # With one more node: the character itself.
    number = np.zeros((len(after), nodes + 1), np.int32)
    number[where, node] = np.arange(len(targets), len(targets) + len(node))
    number[:, nodes] = after
    shown = np.where((tree.heights[:, None] == 1) & (tree.shown != 0), nodes, tree.shown)
    return tree, number[which[:, None], tree.leads[read_by]], number[where[:, None], shown[node]]


def _many_targets(beyond: Beyond, targets: NDArray[np.int32], limits: Limits) -> Inside:
    """Find the states inside of characters in all other cases. The arguments are those of `_one_target`."""
    tree = Utf8Tree.of(beyond, (tuple(range(targets.shape[1])),))
    # For each state and node, the state inside of a character. They are numbered in the order in which they are found.
    reached = np.zeros((len(targets), len(tree.heights)), np.int32)
    rows = [np.zeros((0, tree.continuations), np.int32)]
    count = len(targets)
    for height in (1, 2, 3):
        nodes = np.flatnonzero(tree.heights == height)
        if not len(nodes):
            continue
        below = targets if height == 1 else reached
        limits.check_work(len(below) * len(nodes) // 2)
        live_q, live_n = _live_pairs(below, tree.children[nodes])
        limits.check_work(len(live_q) * tree.continuations)
        number, representative, content = _group(below, tree.shown[nodes], live_q, live_n)
        reached[live_q, nodes[live_n]] = count + number
        count += len(representative)
        limits.check_states(count)
        rows.append(content)
    return tree, reached[:, tree.leads[0]], np.concatenate(rows)


def _live_pairs(below: NDArray[np.int32], children: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the pairs of a state and a node from which some byte leads to a live state."""
    holds = np.zeros((below.shape[1], len(children)), np.float32)
    holds[children.ravel(), np.repeat(np.arange(len(children)), 64)] = 1
    states, nodes = np.nonzero((below != DEAD).astype(np.float32) @ holds)
    return states, nodes


def _group(
    below: NDArray[np.int32], shown: NDArray[np.int64], state: NDArray[np.intp], node: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int32]]:
    """Give one number to all pairs of a state and a node that lead to the same states with the same bytes.

    Pairs with equal hashes are grouped. Then each group is compared row by row, and if two different rows have the same hash, all
    rows are sorted instead.

    Args:
        below: [S, M] the target of each state at each child.
        shown: [N, K] the child of each node for each class of bytes.
        state: [P] the states of the pairs.
        node: [P] the nodes of the pairs.

    Returns:
        The number of each pair, an example of each number, and the targets of each number by class of bytes.
    """
    weights = _weights(shown.shape[1])
    rows = below.ravel().take((state * below.shape[1])[:, None] + shown.take(node, axis=0))
    if below.size * len(shown) < rows.size:
        # The weight of a child is the sum of the weights of its bytes, so each state and each child is looked at once.
        of_child = np.zeros((below.shape[1], len(shown)), np.uint64)
        np.add.at(of_child, (shown, np.arange(len(shown))[:, None]), weights)
        digest = (below.astype(np.uint64) @ of_child)[state, node]
    else:
        # Few pairs of a state and a node are live.
        digest = rows.astype(np.uint64) @ weights
    _, first, inverse = np.unique(digest, return_index=True, return_inverse=True)
    if not np.array_equal(rows.take(first.take(inverse), axis=0), rows):
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return inverse.ravel(), first, rows[first]


@lru_cache(maxsize=128)
def _weights(size: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0x5EED).integers(1, 2**63, size, dtype=np.uint64) | np.uint64(1)
