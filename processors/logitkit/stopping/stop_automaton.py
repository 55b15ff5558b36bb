"""One automaton over all stops: stepped by the bytes of a token on the host, a table over tokens where that is asked for."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from logitkit.automata.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.automata.compile import token_automaton
from logitkit.automata.limits import Limits
from logitkit.automata.occurrences import Occurrences
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.vocabulary import Vocabulary

__all__ = ["FIRED", "Occurrence", "StopAutomaton", "stop_key"]

# Where a language would die, a stop is complete.
FIRED = DEAD

# The class of tokens that lead to `FIRED` from every state.
FIRING_CLASS = 0

# The states are bounded when the automaton is made, and the table with them: a token is listed where it goes on a stop, so there
# are no more entries than bytes of stops times the tokens that begin at one byte.
TABLE_LIMITS = Limits(states=2**31, work=2**62)


class Occurrence(NamedTuple):
    """The stop that a token completes.

    Args:
        which: Its index in the list of stops.
        begin: Byte of the token's text at which the stop begins; below 0 if in the text before it.
        end: Byte behind the stop.
    """

    which: int
    begin: int
    end: int


class StopAutomaton:
    """How much of any stop a text ends with; states have the numbers that they have in the table over tokens.

    State 0 (`FIRED`) is entered when a stop is complete, state 1 (`FINISHED`) by EOS, and neither is left. In all others the text
    goes on.

    Args:
        stops: Any number of texts and token ids, valid for the vocabulary.
        vocabulary: The tokens.
        limits: Bounds on what building may cost.

    Raises:
        PatternTooLarge: There are more states than allowed.
    """

    start = FIRST_STATE

    def __init__(self, stops: tuple[bytes | int, ...], vocabulary: Vocabulary, limits: Limits) -> None:
        self.stops = stops
        self.content_key = stop_key(stops, vocabulary)
        self._vocabulary = vocabulary
        self._tokens, self._eos_ids = vocabulary.tokens, frozenset(vocabulary.eos_ids)
        self._texts = [(i, stop) for i, stop in enumerate(stops) if isinstance(stop, bytes)]
        # In reverse, so that of equal ids the first is written last.
        self._ids = {stop: i for i, stop in reversed([*enumerate(stops)]) if isinstance(stop, int)}
        self._found = found = Occurrences.of([text for _, text in self._texts], limits)
        kept = found.kept()
        self._node = np.flatnonzero(kept)
        self.states = FIRST_STATE + len(self._node)
        self._width: int = found.step.shape[1]
        # States count in steps of the table's width here, so that the next entry is one addition away.
        number = np.where(found.longest < 0, (np.cumsum(kept) - 1) * self._width, -1)
        jump = np.ascontiguousarray(number[found.step[self._node]].astype(np.int32))
        # Reading one element of a memoryview gives a Python int several times faster than numpy gives a scalar.
        self._jump = memoryview(jump.reshape(-1))  # type: ignore[arg-type]
        self._byte_class: list[int] = found.byte_class.tolist()
        self._depth: list[int] = found.depth[self._node].tolist()

    def next(self, state: int, token: int) -> int:
        """Return the state after one token of the vocabulary."""
        if state < FIRST_STATE:
            return state
        if token in self._ids:
            return FIRED
        text = self._tokens[token]
        if text is None:
            return FINISHED if token in self._eos_ids else state
        jump, byte_class = self._jump, self._byte_class
        at = (state - FIRST_STATE) * self._width
        for byte in text:
            at = jump[at + byte_class[byte]]
            if at < 0:
                return FIRED
        return at // self._width + FIRST_STATE

    def is_eos(self, token: int) -> bool:
        """Whether a token ends the sequence."""
        return token in self._eos_ids

    def depth(self, state: int) -> int:
        """Return how many bytes at the end of the text may be the beginning of a stop."""
        return self._depth[state - FIRST_STATE]

    def occurrence(self, state: int, token: int) -> Occurrence | None:
        """Return the stop that a token completes after a state, or None.

        It is the one that ends first; of several that end at one byte, the one that begins first, and of equal ones the first.
        """
        text = self._tokens[token] or b""
        found: list[Occurrence] = []
        node = int(self._node[state - FIRST_STATE])
        for end, byte in enumerate(text, 1):
            node = int(self._found.step[node, self._byte_class[byte]])
            if self._found.longest[node] >= 0:
                which, stop = self._texts[self._found.longest[node]]
                found.append(Occurrence(which, end - len(stop), end))
                break
        if token in self._ids:
            found.append(Occurrence(self._ids[token], 0, len(text)))
        return min(found, key=lambda one: (one.end, one.begin, one.which), default=None)

    @cached_property
    def table(self) -> TokenAutomaton:
        """The table over tokens, which takes longer to make than the rest."""
        dfa = self._found.without()
        free = replace(dfa, free=np.ones(len(dfa.accepting), bool))
        made = token_automaton(free, self._vocabulary, TABLE_LIMITS, "the list of stops")
        class_of = made.class_of.copy()
        class_of[list(self._ids)] = FIRING_CLASS
        return replace(made, class_of=class_of)

    @property
    def sizes(self) -> tuple[str]:
        """What equal automata have in common: here already the content key, as it costs next to nothing."""
        return (self.content_key,)

    def equals(self, other: StopAutomaton) -> bool:
        """Whether another automaton is of the same stops and vocabulary."""
        return self.content_key == other.content_key

    @property
    def nbytes(self) -> int:
        """Bytes of the tables over bytes: the same when the automaton comes into a bank and when it goes."""
        return self._jump.nbytes + self._found.step.nbytes


def stop_key(stops: tuple[bytes | int, ...], vocabulary: Vocabulary) -> str:
    """Return the SHA-256 of the stops and the vocabulary, as 64 hexadecimal digits: by this a saved state names its automaton."""
    return hashlib.sha256(f"{vocabulary.content_key}{stops!r}".encode()).hexdigest()
