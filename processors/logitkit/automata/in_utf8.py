"""From an automaton over the symbols of an alphabet to one over bytes: symbols written out as UTF-8."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.alphabet import Alphabet
from logitkit.automata.budget import spend
from logitkit.automata.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.automata.limits import Limits
from logitkit.automata.subset import SymbolDfa
from logitkit.automata.utf8 import Utf8Tree

# Up to so many symbols of a move are written one by one.
FEW_SYMBOLS = 16


def to_bytes(dfa: SymbolDfa | None, alphabet: Alphabet, limits: Limits) -> ByteDfa:
    """Write the symbols of a minimal automaton out as UTF-8; the result is minimal too.

    A state of the result is a state `q`, or a state inside a character: `q` and a node of the UTF-8 tree. Two of the latter are
    one if they lead to the same states on the same bytes.

    Args:
        dfa: A minimal automaton, or None for the empty language.
        alphabet: Its alphabet.
        limits: Bounds on the number of states, and on the size of their tables.

    Raises:
        PatternTooLarge: There are too many states, or too many symbols beside them.
    """
    if dfa is None:
        return ByteDfa(np.zeros((3, 1), np.int32), np.zeros(256, np.int64), np.zeros(3, bool), FIRST_STATE)
    limits.check_work(len(dfa.moves) * alphabet.size // 2)
    targets = _targets(dfa, alphabet.size)
    alphabet, targets = _without_equal_symbols(alphabet, targets)
    tree, symbol_of_class = Utf8Tree.of(alphabet)
    ascii_class, ascii_symbols = _ascii_classes(alphabet)
    below = 1 + len(ascii_symbols)
    byte_class = np.concatenate([ascii_class, tree.byte_class + (below - 1) * (tree.byte_class > 0)])
    inside = slice(below, below + tree.continuations)
    targets_of_class = targets[:, symbol_of_class]
    expand = _inside_one_class if tree.classes == 2 else _inside_characters
    reached, rows = expand(tree, targets_of_class, limits)
    top = np.zeros((len(targets), inside.stop + len(tree.leads)), np.int32)
    top[:, 1:below] = targets[:, ascii_symbols]
    top[:, inside.stop :] = reached[:, tree.leads]
    inner = np.zeros((len(rows), top.shape[1]), np.int32)
    inner[:, inside] = rows
    spend(len(dfa.moves) * alphabet.size // 4 + (top.size + inner.size) // 8)
    accepting = np.zeros(len(top) + len(inner), bool)
    accepting[FIRST_STATE : len(top)] = dfa.accepting
    return ByteDfa(np.concatenate([top, inner]), byte_class, accepting, FIRST_STATE)


def _targets(dfa: SymbolDfa, symbols: int) -> NDArray[np.int32]:
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


def _without_equal_symbols(alphabet: Alphabet, targets: NDArray[np.int32]) -> tuple[Alphabet, NDArray[np.int32]]:
    """Make symbols one that no state tells apart any more, as those that only a lookaround or a branch that died did."""
    number: dict[bytes, int] = {}
    merged = [number.setdefault(column.tobytes(), len(number)) for column in targets.T]
    if len(number) == alphabet.size:
        return alphabet, targets
    return alphabet.merged(np.array(merged)), targets[:, [merged.index(n) for n in range(len(number))]]


def _ascii_classes(alphabet: Alphabet) -> tuple[NDArray[np.int64], list[int]]:
    """Return the class of each byte below 0x80, 0 for those that no state reads, and the symbol of each class from 1 on."""
    number = {0: 0}
    classes = [number.setdefault(symbol, len(number)) for symbol in alphabet.symbol_at(_ASCII).tolist()]
    return np.array(classes), [*number][1:]


_ASCII = np.arange(128)


def _inside_one_class(
    tree: Utf8Tree, targets: NDArray[np.int32], limits: Limits
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Do what `_inside_characters` does where all characters beyond ASCII that are read at all lead to the same state.

    So it is in most patterns. Then the states inside a character are the nodes of the tree, once for each state that a
    character leads to, and no two of them are one.
    """
    behind, which = np.unique(targets[:, 1], return_inverse=True)
    nodes = len(tree.heights) - 1
    first_live = int(behind[0] == DEAD)
    count = (len(behind) - first_live) * nodes
    limits.check_states(len(targets) + count)
    limits.check_work(count * tree.continuations)
    # By what lies behind the character and node, with one more node: the character itself.
    number = np.zeros((len(behind), nodes + 2), np.int32)
    number[first_live:, 1:-1] = np.arange(len(targets), len(targets) + count).reshape(-1, nodes)
    number[:, -1] = behind
    leaf = (tree.heights[1:, None] == 1) & (tree.shown[1:] != 0)
    rows = number[first_live:].take(np.where(leaf, nodes + 1, tree.shown[1:]), axis=1)
    return number[which], rows.reshape(count, -1)


def _inside_characters(
    tree: Utf8Tree, targets: NDArray[np.int32], limits: Limits
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Find the states inside a character.

    Args:
        tree: The tree.
        targets: [S, classes] where each state goes with a character of each class of the tree.
        limits: Bounds on the number of states, and on the size of their tables.

    Returns:
        Where each state goes at each node of the tree, and where the states found go on each kind of continuation byte.
    """
    # Where state q goes at a node: the state inside a character, numbered as they are found.
    reached = np.zeros((len(targets), len(tree.heights)), np.int32)
    rows = [np.zeros((0, tree.continuations), np.int32)]
    count = len(targets)
    for height in (1, 2, 3):
        nodes = np.flatnonzero(tree.heights == height)
        if not len(nodes):
            continue
        below = targets if height == 1 else reached
        live_q, live_n = _live_pairs(below, tree.children[nodes])
        limits.check_work(len(live_q) * tree.continuations)
        number, representative, content = _group(below, tree.shown[nodes], live_q, live_n)
        reached[live_q, nodes[live_n]] = count + number
        count += len(representative)
        limits.check_states(count)
        rows.append(content)
    return reached, np.concatenate(rows)


def _live_pairs(below: NDArray[np.int32], children: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the pairs (state, node) from which some byte leads to a live state."""
    holds = np.zeros((below.shape[1], len(children)), np.float32)
    holds[children.ravel(), np.repeat(np.arange(len(children)), 64)] = 1
    states, nodes = np.nonzero((below != DEAD).astype(np.float32) @ holds)
    return states, nodes


def _group(
    below: NDArray[np.int32], shown: NDArray[np.int64], state: NDArray[np.intp], node: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int32]]:
    """Number alike the pairs of a state and a node that lead to the same states on the same bytes.

    By a random linear hash; the groups are then compared row by row, and sorted instead should a hash ever have lied.

    Args:
        below: [S, M] where each state goes at the children.
        shown: [N, K] the child of each node for each class of bytes.
        state: [P] the states.
        node: [P] the nodes.

    Returns:
        The number of each pair, one pair of each number, and where it leads, by class of bytes.
    """
    weights = _weights(shown.shape[1])
    rows = below.ravel().take((state * below.shape[1])[:, None] + shown.take(node, axis=0))
    if below.size * len(shown) < rows.size:
        # The weight of a child is the sum of those of its bytes: so each state and each child is looked at once.
        of_child = np.zeros((below.shape[1], len(shown)), np.uint64)
        np.add.at(of_child, (shown, np.arange(len(shown))[:, None]), weights)
        digest = (below.astype(np.uint64) @ of_child)[state, node]
    else:
        # Few of the pairs of a state and a node are live.
        digest = rows.astype(np.uint64) @ weights
    _, first, inverse = np.unique(digest, return_index=True, return_inverse=True)
    if not np.array_equal(rows.take(first.take(inverse), axis=0), rows):
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return inverse.ravel(), first, rows[first]


@lru_cache(maxsize=128)
def _weights(size: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0x5EED).integers(1, 2**63, size, dtype=np.uint64) | np.uint64(1)
