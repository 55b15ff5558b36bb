"""The automaton that tracks whether a text is in a thinking section, and forces the section's end.

It has three groups of states, in this order: inside a section, one per byte of the end marker that the text may end with; the
same number in which the rest of the end marker is forced, used only to look up legal tokens; and outside, one per byte of the
start.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import spend
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.token_table import STAY
from logitkit.errors import VocabularyError
from logitkit.limits import UNBOUNDED
from logitkit.vocabulary.marker import token_of
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["INSIDE", "inside_states", "thinking_automaton"]

# The state at the start of a section.
INSIDE = FIRST_STATE

# The number of ids counted in one step.
IDS_COUNTED_A_STEP = 128


def inside_states(end: bytes | int) -> int:
    """Return the number of states inside a section; adding it to such a state gives the state in which the end is forced."""
    return len(end) if isinstance(end, bytes) else 1


def thinking_automaton(start: bytes | int | None, end: bytes | int, vocabulary: Vocabulary) -> TokenAutomaton:
    """Compile the automaton for two markers; a marker that names a special token also stands for that token.

    Args:
        start: Opens a section. None: a section is open from the beginning, and no other follows.
        end: Closes it. If it is the name of a special token, that token alone is forced.
        vocabulary: The vocabulary.

    Raises:
        VocabularyError: After some tokens, the vocabulary cannot spell the rest of the end marker.
    """
    inside = inside_states(end)
    outside = FIRST_STATE + 2 * inside + 1
    opens, closes = (None if marker is None else token_of(marker, vocabulary) for marker in (start, end))
    dfa = _bytes(start, end, outside, spelled=closes is None)
    # The length of markers is limited, and so is the size of all this.
    automaton = token_automaton(dfa, vocabulary, UNBOUNDED, "the thinking budget")
    for token in {marker for marker in (opens, closes) if marker is not None}:
        targets = np.array([automaton.next(state, token) for state in range(automaton.states)])
        if token == opens:
            targets[outside:] = INSIDE
        if token == closes:
            targets[INSIDE : INSIDE + 2 * inside] = outside
        automaton = _with_token(automaton, token, targets)
    _check_spelled(automaton, inside, end)
    return automaton


def _bytes(start: bytes | int | None, end: bytes | int, outside: int, spelled: bool) -> ByteDfa:
    opening, closing = (Occurrences.of([m] if isinstance(m, bytes) else [], UNBOUNDED) for m in (start, end))
    inside = inside_states(end)
    # Bytes that neither marker distinguishes share a class; class 0 occurs in neither.
    width = opening.step.shape[1]
    pairs, byte_class = np.unique(closing.byte_class * width + opening.byte_class, return_inverse=True)
    byte_class = byte_class.reshape(-1) + 1
    states = outside + max(1, len(opening.step) - 1)
    step = np.zeros((states, len(pairs) + 1), np.int32)
    for first, other, part, columns in (
        (INSIDE, outside, closing, pairs // width),
        (outside, INSIDE, opening, pairs % width),
    ):
        target = part.step[:, columns]
        live = part.longest < 0
        step[first : first + int(live.sum()), 1:] = np.where(live[target], first + target, other)[live]
    forced = INSIDE + inside
    if isinstance(end, bytes) and spelled:
        # After the last byte comes a separate state without exits, since no token may extend past the end marker.
        step[forced + np.arange(inside), byte_class[list(end)]] = forced + 1 + np.arange(inside)
    free = np.ones(states, bool)
    free[forced:outside] = False
    free[:FIRST_STATE] = False
    accepting = free.copy()
    accepting[outside - 1] = True
    return ByteDfa(step, byte_class, accepting, INSIDE if start is None else outside, free=free)


def _with_token(automaton: TokenAutomaton, token: int, targets: NDArray[np.int64]) -> TokenAutomaton:
    """Give one token its own class, with the given targets, [S]."""
    symbol = automaton.classes
    listed = FIRST_STATE + np.flatnonzero(targets[FIRST_STATE:] != DEAD)
    # The new class has the highest number, so it comes last in each row.
    place = automaton.row_start[listed + 1]
    more = np.zeros(len(automaton.row_start), np.int64)
    more[listed + 1] = 1
    class_of = automaton.class_of.astype(np.int32)
    class_of[token] = symbol
    return replace(
        automaton,
        class_of=class_of.astype(np.int16) if symbol < 2**15 else class_of,
        default=np.append(automaton.default, np.int32(DEAD)),
        row_start=automaton.row_start + np.cumsum(more),
        row_class=np.insert(automaton.row_class.astype(np.int32), place, symbol),
        row_target=np.insert(automaton.row_target.astype(np.int32), place, targets[listed]),
    )


def _check_spelled(automaton: TokenAutomaton, inside: int, end: bytes | int) -> None:
    reached = _reached(automaton)
    for depth in np.flatnonzero(reached[INSIDE : INSIDE + inside]).tolist():
        spend(len(automaton.class_of) // IDS_COUNTED_A_STEP)
        legal = automaton.legal_classes(INSIDE + inside + depth)
        if not automaton.per_token(legal).any():
            assert isinstance(end, bytes)
            raise VocabularyError(
                f"the tokens of the vocabulary cannot spell {end[depth:]!r}, which completes the end marker {end!r} after "
                f"{end[:depth]!r}; give a marker that they can spell, or the id of a token"
            )


def _reached(automaton: TokenAutomaton) -> NDArray[np.bool_]:
    """Return [S] bool, the states that a text can reach."""
    reached = np.zeros(automaton.states, bool)
    reached[automaton.start] = True
    used = np.bincount(automaton.class_of, minlength=automaton.classes) > 0
    waiting = [automaton.start]
    while waiting:
        state = waiting.pop()
        target = automaton.default.copy()
        row = slice(int(automaton.row_start[state]), int(automaton.row_start[state + 1]))
        target[automaton.row_class[row]] = automaton.row_target[row]
        found = np.unique(np.where(target == STAY, state, target)[used])
        fresh = found[(found >= FIRST_STATE) & ~reached[found]]
        reached[fresh] = True
        waiting.extend(fresh.tolist())
    return reached
