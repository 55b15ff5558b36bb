"""The automaton over bytes: what the token classes are computed from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.automata.alphabet import Alphabet
from logitkit.automata.limits import Limits
from logitkit.automata.subset import SymbolDfa
from logitkit.automata.utf8 import Utf8Tree

DEAD = 0
FINISHED = 1  # after EOS; no byte leads there, but the numbers are those of the token automaton
FIRST_STATE = 2


@dataclass(frozen=True, eq=False, slots=True)
class ByteDfa:
    """A minimal deterministic automaton over bytes.

    Args:
        step: [S, K] int32, target of each state under each class of bytes. State 0 is dead, state 1 is unused, others are live:
            an accepting state can be reached from each.
        byte_class: [256] int64, class of each byte; class 0 is dead from every state.
        accepting: [S] bool.
        start: Its start state.
        fallback: For automata that look for texts (`occurrences`): what each state falls back to, or None.
        free: [S] bool, in which states ids without text are legal and change nothing; None: in none, as a language has it.
            With fallbacks it is all or none.
    """

    step: NDArray[np.int32]
    byte_class: NDArray[np.int64]
    accepting: NDArray[np.bool_]
    start: int
    fallback: Fallback | None = None
    free: NDArray[np.bool_] | None = None

    def run(self, text: bytes, state: int | None = None) -> int:
        """Return the state after some bytes, from the start or from a given state."""
        state = self.start if state is None else state
        for byte in text:
            state = int(self.step[state, self.byte_class[byte]])
        return state

    def accepts(self, text: bytes) -> bool:
        """Whether the whole text is in the language."""
        return bool(self.accepting[self.run(text)])


@dataclass(frozen=True, eq=False, slots=True)
class Fallback:
    """How the states of an automaton that looks for texts relate: each acts like a shorter one unless a text goes on.

    Args:
        state: [S] the state that each falls back to; the start state, the last resort, has itself.
        goes_on: [S, K] int32, target of each state where a text goes on (or is complete: dead), else `NOT_LISTED`.
    """

    state: NDArray[np.int64]
    goes_on: NDArray[np.int32]


NOT_LISTED = -1

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
    tree = Utf8Tree.of(alphabet)
    states = len(targets)
    byte_class, columns = _byte_classes(tree)
    inner = len(tree.heights)
    # Where state q goes at a node: the state inside a character, numbered as they are found.
    reached = np.zeros((states, inner), np.int32)
    rows = []
    count = states
    for height in (1, 2, 3):
        nodes = np.flatnonzero(tree.heights == height)
        if not len(nodes):
            continue
        below = targets if height == 1 else reached
        live_q, live_n = _live_pairs(below, tree.children[nodes])
        limits.check_work(len(live_q) * len(columns.continuation.first))
        continuation = columns.continuation
        shown = tree.children[nodes][:, continuation.first]
        number, representative, content = _group(below, shown, live_q, live_n)
        reached[live_q, nodes[live_n]] = count + number
        count += len(representative)
        limits.check_states(count)
        row = np.zeros((len(representative), columns.size), np.int32)
        row[:, continuation.classes] = content
        rows.append(row)
    top = np.zeros((states, columns.size), np.int32)
    top[:, columns.ascii.classes] = targets[:, tree.ascii[columns.ascii.first]]
    top[:, columns.lead.classes] = reached[:, tree.leads[columns.lead.first]]
    accepting = np.zeros(count, bool)
    accepting[FIRST_STATE : FIRST_STATE + len(dfa.accepting)] = dfa.accepting
    return ByteDfa(np.concatenate([top, *rows]), byte_class, accepting, FIRST_STATE)


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


@dataclass(frozen=True, eq=False, slots=True)
class _Kind:
    """Byte classes of one kind: one byte of each (as an index within the kind) and their numbers."""

    first: NDArray[np.int64]
    classes: NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class _Columns:
    size: int
    ascii: _Kind
    continuation: _Kind
    lead: _Kind


def _byte_classes(tree: Utf8Tree) -> tuple[NDArray[np.int64], _Columns]:
    """Group the bytes that no node of the tree tells apart; class 0 leads nowhere."""
    byte_class = np.zeros(256, np.int64)
    size = 1
    kinds = []
    groups = (
        (0x00, tree.ascii[:, None]),
        (0x80, np.ascontiguousarray(tree.children.T)),
        (0xC2, tree.leads[:, None]),
    )
    for first_byte, columns in groups:
        # By content; what leads nowhere is 0.
        content, width = columns.tobytes(), columns[0].nbytes
        number = {bytes(width): 0}
        found = [
            number.setdefault(content[i : i + width], size + len(number) - 1) for i in range(0, len(content), width)
        ]
        byte_class[first_byte : first_byte + len(columns)] = found
        classes = np.arange(size, size + len(number) - 1)
        kinds.append(_Kind(np.array([found.index(c) for c in classes.tolist()], np.int64), classes))
        size += len(classes)
    return byte_class, _Columns(size, *kinds)


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
    weights = np.random.default_rng(0x5EED).integers(1, 2**63, shown.shape[1], dtype=np.uint64) | np.uint64(1)
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
