"""The automaton that tracks whether a text is in a thinking section, and forces the section's end or holds it back.

`SectionGraph` has the states inside of a section, and `SectionStates` numbers them, those in which the end is forced or held
back, and those outside, where a state is a beginning of the start marker.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import spend
from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.errors import VocabularyError
from logitkit.limits import UNBOUNDED
from logitkit.reasoning.search_product import joined_classes
from logitkit.reasoning.searches import SectionSearch
from logitkit.reasoning.section_graph import CLOSED, SectionGraph
from logitkit.reasoning.section_states import SectionStates
from logitkit.reasoning.section_texts import SectionTexts
from logitkit.vocabulary.marker import token_of
from logitkit.vocabulary.marker_symbol import MarkerSymbol
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["SectionAutomaton", "thinking_automaton"]

Ints = NDArray[np.int64]

# The number of ids counted in one step.
IDS_COUNTED_A_STEP = 128


def thinking_automaton(texts: SectionTexts, vocabulary: Vocabulary) -> TokenAutomaton:
    """Compile the automaton for the texts of sections; see `SectionAutomaton.compiled`."""
    return SectionAutomaton(texts, vocabulary).compiled()


class SectionAutomaton:
    """The states of sections and those outside, before and after they are compiled for the tokens of a vocabulary.

    Args:
        texts: The texts of a section. A marker that names a special token also stands for that token.
        vocabulary: The vocabulary.

    Raises:
        ConfigurationError: The text that is forced contains another end marker, or may begin a pause.
    """

    def __init__(self, texts: SectionTexts, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._graph = graph = SectionGraph(texts, vocabulary)
        self._opening = SectionSearch.of([texts.start] if isinstance(texts.start, bytes) else [], vocabulary)
        self._opens_by = None if texts.start is None else token_of(texts.start, vocabulary)
        # In the others, the start marker is complete.
        self._outside = int((self._opening.found < 0).sum())
        states: SectionStates[int] = SectionStates(graph.states, graph.breaks, graph.states - graph.open)
        held = states.distance_to(states.outside + self._outside) if texts.holds else 0
        self.states: SectionStates[int] = replace(states, held=held)
        """The numbers of the states."""

    def compiled(self) -> TokenAutomaton:
        """Compile the automaton. If the forced marker is the name of a special token, that token alone is forced.

        Raises:
            VocabularyError: After some tokens, the vocabulary cannot spell the rest of the forced text.
        """
        # The length of texts is limited, and so is the size of all this.
        automaton = token_automaton(self._bytes(), self._vocabulary, UNBOUNDED, "the thinking budget")
        # Files of states know the automaton of one end marker by the order of its classes, in which these tokens come last.
        for token in self._marker_tokens if self._graph.texts.is_plain else ():
            targets = np.array([automaton.next(state, token) for state in range(automaton.states)])
            self._move(token, targets)
            automaton = _with_token(automaton, token, targets)
        self._check_spelled(automaton)
        return automaton

    def _bytes(self) -> ByteDfa:
        graph, numbers, opening = self._graph, self.states, self._opening
        # Bytes that no text distinguishes share a class; class 0 occurs in none.
        byte_class, (inner, outer) = joined_classes([graph.byte_class, opening.byte_class])
        byte_class = byte_class + 1
        states = numbers.outside + self._outside + (graph.states if numbers.held else 0)
        step = np.zeros((states, len(inner) + 1), np.int32)
        free = np.ones(states, bool)
        free[numbers.forced(numbers.first) : numbers.outside] = False
        free[:FIRST_STATE] = False
        tokens = sorted({*opening.special_tokens, *graph.special_tokens})
        special_tokens = {token: np.where(free, np.arange(states), DEAD) for token in tokens}
        groups = [(numbers.first, numbers.outside)]
        groups += [(numbers.holding(numbers.first), DEAD)] if numbers.held else []
        for first, closed in groups:
            rows = slice(first, first + graph.states)
            step[rows, 1:] = _numbered(graph.step[:, inner], first, closed)
            for token, leads in graph.special_tokens.items():
                special_tokens[token][rows] = _numbered(leads, first, closed)
        rows = slice(numbers.outside, numbers.outside + self._outside)
        step[rows, 1:] = self._opened(opening.step[: self._outside, outer])
        for token, leads in opening.special_tokens.items():
            special_tokens[token][rows] = self._opened(leads[: self._outside])
        for state in range(graph.open):
            now = numbers.forced(numbers.of(state))
            for symbol in graph.following(state):
                # After the last symbol comes a separate state without exits, since no token may extend past the end marker.
                after = int(
                    _numbered(np.array(graph.target(state, symbol)), numbers.forced(numbers.first), numbers.closed)
                )
                if MarkerSymbol.is_byte(symbol):
                    step[now, byte_class[symbol]] = after
                elif MarkerSymbol.token_id(symbol) not in graph.end_tokens:  # these get their targets in `_move`
                    special_tokens[MarkerSymbol.token_id(symbol)][now] = after
        # A text after which a token is forced can be completed only with that token, so compiling needs to know where it leads.
        for token in () if graph.texts.is_plain else self._marker_tokens:
            targets = special_tokens.setdefault(token, self._by_text(token, step, byte_class, free))
            self._move(token, targets)
        accepting = free.copy()
        accepting[numbers.closed] = True
        begin = numbers.first if graph.texts.start is None else numbers.outside
        return ByteDfa(step, byte_class, accepting, begin, free=free, special_tokens=special_tokens)

    @property
    def _marker_tokens(self) -> set[int]:
        """The tokens that are markers by their ids."""
        return {*([] if self._opens_by is None else [self._opens_by]), *self._graph.marker_tokens}

    def _by_text(self, token: int, step: NDArray[np.int32], byte_class: Ints, free: NDArray[np.bool_]) -> Ints:
        """Return [S] where a token leads by its text alone."""
        tokens = self._vocabulary.tokens
        text = tokens[token] if token < len(tokens) else None
        targets = np.arange(len(step))
        if text is None:
            return np.where(free, targets, DEAD)
        for byte in text:
            targets = step[targets, byte_class[byte]].astype(np.int64)
        return targets

    def _opened(self, targets: NDArray[np.int32] | Ints) -> Ints:
        """Return the states after moves outside of sections, given targets in the search for the start marker."""
        return np.where(targets < self._outside, self.states.outside + targets, self.states.first)

    def _move(self, token: int, targets: Ints) -> None:
        """Change the targets, [S], of a token that is a marker by its id."""
        graph, numbers = self._graph, self.states
        if token == self._opens_by:
            targets[numbers.outside : numbers.outside + self._outside] = numbers.first
        if token not in graph.marker_tokens:
            return
        rows = slice(numbers.first, numbers.of(graph.states))
        after = graph.token_targets(token, targets[rows] - numbers.first)
        targets[rows] = _numbered(after, numbers.first, numbers.outside)
        if numbers.held:
            first = numbers.holding(numbers.first)
            rows = slice(first, first + graph.states)
            targets[rows] = _numbered(graph.token_targets(token, targets[rows] - first), first, DEAD)
        for state in range(graph.open):
            forced = numbers.forced(numbers.of(state))
            if graph.following(state) == [MarkerSymbol.token(token)]:
                targets[forced] = numbers.outside
            elif after[state] == CLOSED or graph.open <= after[state] < graph.states:
                targets[forced] = DEAD

    def _check_spelled(self, automaton: TokenAutomaton) -> None:
        graph, reached = self._graph, _reached(automaton)
        for state in np.flatnonzero(reached[self.states.first : self.states.of(graph.open)]).tolist():
            spend(len(automaton.class_of) // IDS_COUNTED_A_STEP)
            legal = automaton.legal_classes(self.states.forced(self.states.of(state)))
            if automaton.per_token(legal).any():
                continue
            text, depth = graph.forced.text, graph.already_read(state)
            what = f"spell {text[depth:]!r}, which completes the end marker {text!r} after {text[:depth]!r}"
            if graph.is_in_character(state):
                what = f"complete a character of which only some bytes have been generated, before {text!r} is forced"
            raise VocabularyError(
                f"the tokens of the vocabulary cannot {what}; give a marker that they can spell, or the id of a token"
                if not graph.texts.whole_characters
                else f"the tokens of the vocabulary cannot {what}; give other texts, or leave out message and grace"
            )


def _numbered(targets: Ints, first: int, closed: int) -> Ints:
    """Return the states of a group for targets in a section, given the first of its states and that after an end marker."""
    return np.where(targets == CLOSED, closed, first + targets)


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
