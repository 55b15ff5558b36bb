"""The automaton that tracks whether a text is in a thinking section, and forces the section's end.

It has a state for each beginning of the end marker, with which the text in a section may end, and for each beginning of the start
marker outside. `SectionStates` numbers these, and those in which the rest of the end marker is forced.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import spend
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.named_occurrences import NamedSearch
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.errors import VocabularyError
from logitkit.limits import UNBOUNDED
from logitkit.reasoning.section_states import INSIDE, SectionStates
from logitkit.vocabulary.marker import token_of
from logitkit.vocabulary.marker_symbol import MarkerSymbol
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["inside_states", "thinking_automaton"]

# The number of ids counted in one step.
IDS_COUNTED_A_STEP = 128


class _Marker:
    """The states in which a marker is not complete, and how it goes on.

    Args:
        marker: A text, a token id, or None for no marker.
        vocabulary: The vocabulary.
    """

    def __init__(self, marker: bytes | int | None, vocabulary: Vocabulary) -> None:
        self.text = marker if isinstance(marker, bytes) else b""
        self.token = None if marker is None else token_of(marker, vocabulary)
        named = vocabulary.special_names.named(self.text) if self.text else None
        search = NamedSearch([named], UNBOUNDED) if named is not None and named.is_mixed else None
        self.found = search.occurrences if search else Occurrences.of([self.text] if self.text else [], UNBOUNDED)
        self.open = int((self.found.longest < 0).sum())
        # How much of the text each state has read.
        self.read = [search.spelled(s) for s in range(self.open)] if search else self.found.depth[: self.open].tolist()
        # The symbol with which each state goes on. A marker that is or names a token goes on with that token.
        self.following: list[int] = [search.next_symbol(state) for state in range(self.open)] if search else []
        if not search and self.token is None:
            self.following = [*self.text]

    def after(self, state: int, symbol: int) -> int:
        """Return the state after a symbol."""
        if MarkerSymbol.is_byte(symbol):
            return int(self.found.step[state, self.found.byte_class[symbol]])
        return int(self.found.special_tokens[MarkerSymbol.token_id(symbol)][state])


def inside_states(end: bytes | int, vocabulary: Vocabulary) -> int:
    """Return the number of states inside a section."""
    return _Marker(end, vocabulary).open


def thinking_automaton(start: bytes | int | None, end: bytes | int, vocabulary: Vocabulary) -> TokenAutomaton:
    """Compile the automaton for two markers; a marker that names a special token also stands for that token.

    Args:
        start: Opens a section. None: a section is open from the beginning, and no other follows.
        end: Closes it. If it is the name of a special token, that token alone is forced.
        vocabulary: The vocabulary.

    Raises:
        VocabularyError: After some tokens, the vocabulary cannot spell the rest of the end marker.
    """
    opening, closing = _Marker(start, vocabulary), _Marker(end, vocabulary)
    outside = SectionStates(closing.open).outside
    dfa = _bytes(opening, closing, INSIDE if start is None else outside)
    # The length of markers is limited, and so is the size of all this.
    automaton = token_automaton(dfa, vocabulary, UNBOUNDED, "the thinking budget")
    for token in {marker.token for marker in (opening, closing) if marker.token is not None}:
        targets = np.array([automaton.next(state, token) for state in range(automaton.states)])
        if token == opening.token:
            targets[outside:] = INSIDE
        if token == closing.token:
            targets[INSIDE : SectionStates(closing.open).closed] = outside
        automaton = _with_token(automaton, token, targets)
    _check_spelled(automaton, closing, end)
    return automaton


def _bytes(opening: _Marker, closing: _Marker, begin: int) -> ByteDfa:
    sections, width = SectionStates(closing.open), opening.found.step.shape[1]
    forced, outside = sections.forced(INSIDE), sections.outside
    # Bytes that neither marker distinguishes share a class; class 0 occurs in neither.
    pairs, byte_class = np.unique(closing.found.byte_class * width + opening.found.byte_class, return_inverse=True)
    byte_class = byte_class.reshape(-1) + 1
    states = outside + opening.open
    step = np.zeros((states, len(pairs) + 1), np.int32)
    free = np.ones(states, bool)
    free[forced:outside] = False
    free[:FIRST_STATE] = False
    tokens = sorted({*opening.found.special_tokens, *closing.found.special_tokens})
    special_tokens = {token: np.where(free, np.arange(states), DEAD) for token in tokens}
    for first, other, part, columns in (
        (INSIDE, outside, closing, pairs // width),
        (outside, INSIDE, opening, pairs % width),
    ):
        rows = slice(first, first + part.open)
        target = part.found.step[: part.open, columns]
        step[rows, 1:] = np.where(target < part.open, first + target, other)
        for token, leads in part.found.special_tokens.items():
            to = leads[: part.open]
            special_tokens[token][rows] = np.where(to < part.open, first + to, other)
    for state, symbol in enumerate(closing.following):
        # After the last symbol comes a separate state without exits, since no token may extend past the end marker.
        after = min(forced + closing.after(state, symbol), sections.closed)
        if MarkerSymbol.is_byte(symbol):
            step[forced + state, byte_class[symbol]] = after
        else:
            special_tokens[MarkerSymbol.token_id(symbol)][forced + state] = after
    accepting = free.copy()
    accepting[sections.closed] = True
    return ByteDfa(step, byte_class, accepting, begin, free=free, special_tokens=special_tokens)


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


def _check_spelled(automaton: TokenAutomaton, closing: _Marker, end: bytes | int) -> None:
    reached, forced = _reached(automaton), SectionStates(closing.open).forced(INSIDE)
    for state in np.flatnonzero(reached[INSIDE:forced]).tolist():
        spend(len(automaton.class_of) // IDS_COUNTED_A_STEP)
        legal = automaton.legal_classes(forced + state)
        if not automaton.per_token(legal).any():
            assert isinstance(end, bytes)
            depth = closing.read[state]
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
