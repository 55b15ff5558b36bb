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


def to_bytes(dfa: SymbolDfa | None, alphabet: Alphabet, limits: Limits) -> ByteDfa:
    """Write the symbols of a minimal automaton out as UTF-8; the result is minimal too.

    A state of the result is a state `q`, or a state inside a character: `q` and a node of the UTF-8 tree. Two of the latter are
    one if they lead to the same states on the same bytes.

    Args:
        dfa: A minimal automaton, or None for the empty language.
        alphabet: Its alphabet.
        limits: Bound on the number of states.

    Raises:
        PatternTooLarge: There are too many states.
    """
    if dfa is None:
        return ByteDfa(np.zeros((3, 1), np.int32), np.zeros(256, np.int64), np.zeros(3, bool), FIRST_STATE)
    tree = Utf8Tree.of(alphabet)
    targets = _targets(dfa, alphabet.size)
    states = len(targets)
    byte_class, columns = _byte_classes(tree)
    inner = len(tree.heights)
    # Where state q goes at a node: the state inside a character, numbered as they are found.
    reached = np.zeros((states, inner), np.int64)
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
        content = below[live_q[:, None], tree.children[nodes][:, continuation.first][live_n]]
        number, representative = _group(content)
        reached[live_q, nodes[live_n]] = count + number
        count += len(representative)
        limits.check_states(count)
        row = np.zeros((len(representative), columns.size), np.int32)
        row[:, continuation.classes] = content[representative]
        rows.append(row)
    top = np.zeros((states, columns.size), np.int32)
    top[:, columns.ascii.classes] = targets[:, tree.ascii[columns.ascii.first]]
    top[:, columns.lead.classes] = reached[:, tree.leads[columns.lead.first]]
    accepting = np.zeros(count, bool)
    accepting[FIRST_STATE : FIRST_STATE + len(dfa.accepting)] = dfa.accepting
    return ByteDfa(np.concatenate([top, *rows]), byte_class, accepting, FIRST_STATE)


def _targets(dfa: SymbolDfa, symbols: int) -> NDArray[np.int64]:
    """Return the moves as a matrix [states, symbols], with the numbers of the byte automaton."""
    targets = np.zeros((len(dfa.moves) + FIRST_STATE, symbols), np.int64)
    for source, row in enumerate(dfa.moves):
        for target, mask in row.items():
            left = mask
            while left:
                low = left & -left
                targets[source + FIRST_STATE, low.bit_length() - 1] = target + FIRST_STATE
                left ^= low
    return targets


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
        unique, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
        alive = unique.any(axis=1)
        number = np.where(alive, size + np.cumsum(alive) - 1, 0)
        byte_class[first_byte : first_byte + len(columns)] = number[inverse.ravel()]
        kinds.append(_Kind(first[alive], number[alive]))
        size += int(alive.sum())
    return byte_class, _Columns(size, *kinds)


def _live_pairs(below: NDArray[np.int64], children: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the pairs (state, node) from which some byte leads to a live state."""
    holds = np.zeros((below.shape[1], len(children)), np.float32)
    holds[children.ravel(), np.repeat(np.arange(len(children)), 64)] = 1
    states, nodes = np.nonzero((below != DEAD).astype(np.float32) @ holds)
    return states, nodes


def _group(rows: NDArray[np.int64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Number equal rows alike; return the numbers and one row of each.

    By a random linear hash; the groups are then compared row by row, and sorted instead should a hash ever have lied.
    """
    weights = np.random.default_rng(0x5EED).integers(1, 2**63, rows.shape[1], dtype=np.uint64) | np.uint64(1)
    digest = rows.astype(np.uint64) @ weights
    _, first, inverse = np.unique(digest, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first][inverse], rows):
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return inverse.ravel(), first
