"""One automaton for all stops: the host steps it byte by byte; the tensor path uses a table over tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from logitkit.budget import one_budget
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.bytes.named_occurrences import named_occurrences, numbered, together
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.compiler.bytes.pattern_occurrences import pattern_occurrences
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import PatternTooLarge
from logitkit.limits import UNBOUNDED, Limits
from logitkit.stopping.stop_pattern import StopPattern
from logitkit.vocabulary.marker import token_of
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["FIRED", "Occurrence", "StopAutomaton", "stop_key"]

# The state that means "dead" in a constraint means "a stop is complete" here.
FIRED = DEAD

# The class of tokens that lead to `FIRED` from every state.
FIRING_CLASS = 0

# A state knows for each match how many bytes it has, so that one character of several lengths makes many states.
ADVICE = "In a stop, repeat characters of one byte, such as [0-9] in place of \\d, and only a few where another match may begin"

# The number of states is limited when the automaton is built, and that limits the table: a token is listed only in states where
# it continues a stop, so the entries are at most the bytes of all stops times the tokens that start with the same byte.
TABLE_LIMITS = UNBOUNDED


class Occurrence(NamedTuple):
    """A stop that a token completes.

    Args:
        which: The index of the stop in the list.
        begin: The byte of the token's text at which the stop begins; negative if it begins in the text before the token.
        end: The byte after the stop.
    """

    which: int
    begin: int
    end: int


class StopAutomaton:
    """Tracks how much of any stop the text ends with; states have the same numbers in the table over tokens.

    State 0 (`FIRED`) is entered when a stop is complete, state 1 (`FINISHED`) by EOS; neither is ever left. In all other
    states, the text continues.

    Args:
        stops: Any number of texts, patterns and token ids, valid for the vocabulary. The name of a special token stops the text
            both as that token and when spelled in ordinary tokens.
        vocabulary: The vocabulary.
        limits: Limits on the cost of building.

    Raises:
        ConfigurationError: A pattern is one that `StopPattern` refuses.
        PatternTooLarge: The automaton has more states than allowed.
    """

    start = FIRST_STATE

    def __init__(self, stops: tuple[bytes | int | StopPattern, ...], vocabulary: Vocabulary, limits: Limits) -> None:
        self.stops = stops
        self.content_key = stop_key(stops, vocabulary)
        self._vocabulary = vocabulary
        self._tokens, self._eos_ids = vocabulary.tokens, frozenset(vocabulary.eos_ids)
        # In reverse, so that the first of several equal ids wins.
        named = [(i, token_of(s, vocabulary)) for i, s in enumerate(stops) if not isinstance(s, StopPattern)]
        self._ids = {token: i for i, token in reversed(named) if token is not None}
        self._found = found = self._occurrences(limits)
        kept = found.kept()
        self._node = np.flatnonzero(kept)
        self.states = FIRST_STATE + len(self._node)
        self._width: int = found.step.shape[1]
        # Here states are multiples of the table's width, so that an addition gives the index of the next entry.
        number = np.where(found.longest < 0, (np.cumsum(kept) - 1) * self._width, -1)
        jump = np.ascontiguousarray(number[found.step[self._node]].astype(np.int32))
        # A memoryview returns a Python int several times faster than numpy returns a scalar.
        self._jump = memoryview(jump.reshape(-1))  # type: ignore[arg-type]
        self._byte_class: list[int] = found.byte_class.tolist()
        # After each special token that stands within a stop.
        self._special_tokens: dict[int, list[int]] = {
            t: number[to[self._node]].tolist() for t, to in found.special_tokens.items()
        }
        self._depth: list[int] = found.depth[self._node].tolist()
        self._table_limits = TABLE_LIMITS
        if any(isinstance(stop, StopPattern) for stop in stops):
            # A pattern may lead anywhere from many states, so its table is built now, where a limit is an error of the caller.
            self._table_limits = limits
            with one_budget(limits.work):
                _ = self.table

    def _occurrences(self, limits: Limits) -> Occurrences:
        """Return the automaton over bytes of the texts and patterns, whose numbers are their places in the list of stops."""
        texts = [(i, stop) for i, stop in enumerate(self.stops) if isinstance(stop, bytes)]
        patterns = [(i, stop) for i, stop in enumerate(self.stops) if isinstance(stop, StopPattern)]
        names = self._vocabulary.special_names
        found = numbered(named_occurrences([names.named(text) for _, text in texts], limits), [i for i, _ in texts])
        if not patterns:
            return found
        try:
            with one_budget(limits.work):
                matching = pattern_occurrences([one.byte_dfa(f"stops[{i}]", limits) for i, one in patterns], limits)
                return together(numbered(matching, [i for i, _ in patterns]), found, limits)
        except PatternTooLarge as error:
            raise PatternTooLarge(f"{error}. {ADVICE}") from None

    def next(self, state: int, token: int) -> int:
        """Return the state after one token of the vocabulary."""
        if state < FIRST_STATE:
            return state
        if token in self._ids:
            return FIRED
        text = self._tokens[token]
        if text is None:
            return self._without_text(state, token)
        jump, byte_class = self._jump, self._byte_class
        at = (state - FIRST_STATE) * self._width
        for byte in text:
            at = jump[at + byte_class[byte]]
            if at < 0:
                return FIRED
        return at // self._width + FIRST_STATE

    def _without_text(self, state: int, token: int) -> int:
        after = self._special_tokens.get(token)
        if after is not None and after[state - FIRST_STATE] < 0:
            return FIRED
        if token in self._eos_ids:
            return FINISHED
        return state if after is None else after[state - FIRST_STATE] // self._width + FIRST_STATE

    def is_eos(self, token: int) -> bool:
        """Whether a token ends the sequence."""
        return token in self._eos_ids

    def depth(self, state: int) -> int:
        """Return how many bytes at the end of the text may be the beginning of a stop."""
        return self._depth[state - FIRST_STATE]

    def occurrence(self, state: int, token: int) -> Occurrence | None:
        """Return the stop that a token completes after a state, or None.

        The stop that ends first wins; of several that end at the same byte, the one that begins first, then the first in the
        list.
        """
        text = self._tokens[token] or b""
        found: list[Occurrence] = []
        for end, node in self._visited(int(self._node[state - FIRST_STATE]), token):
            if self._found.longest[node] >= 0:
                which = int(self._found.longest[node])
                found.append(Occurrence(which, end - int(self._found.depth[node]), end))
                break
        if token in self._ids:
            found.append(Occurrence(self._ids[token], 0, len(text)))
        return min(found, key=lambda one: (one.end, one.begin, one.which), default=None)

    def _visited(self, node: int, token: int) -> Iterator[tuple[int, int]]:
        """Return the nodes that a token leads through, each with the bytes of the token before it."""
        if token in self._found.special_tokens:
            yield 0, int(self._found.special_tokens[token][node])
        for end, byte in enumerate(self._tokens[token] or b"", 1):
            node = int(self._found.step[node, self._byte_class[byte]])
            yield end, node

    @cached_property
    def table(self) -> TokenAutomaton:
        """The table over tokens, which is slower to build than the rest."""
        dfa = self._found.without()
        free = replace(dfa, free=np.ones(len(dfa.accepting), bool))
        made = token_automaton(free, self._vocabulary, self._table_limits, "the list of stops", prune=False)
        class_of = made.class_of.copy()
        class_of[list(self._ids)] = FIRING_CLASS
        return replace(made, class_of=class_of)

    def has_state(self, state: int) -> bool:
        """Whether a row may be in a state."""
        return 0 <= state < self.states

    @property
    def sizes(self) -> tuple[str]:
        """A key that equal automata share. This is already the content key, which costs almost nothing here."""
        return (self.content_key,)

    def equals(self, other: StopAutomaton) -> bool:
        """Whether another automaton has the same stops and vocabulary."""
        return self.content_key == other.content_key

    @property
    def nbytes(self) -> int:
        """The size of the tables over bytes: the same when the automaton enters the registry and when it leaves."""
        return self._jump.nbytes + self._found.step.nbytes


def stop_key(stops: tuple[bytes | int | StopPattern, ...], vocabulary: Vocabulary) -> str:
    """Return the SHA-256 of the stops and the vocabulary, as 64 hexadecimal digits. Saved states identify the automaton by it."""
    return hashlib.sha256(f"{vocabulary.content_key}{stops!r}".encode()).hexdigest()
