"""Which tokens are legal, found by reading every token of a vocabulary byte by byte: the judge of the campaign on masks."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, ByteDfa
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.nested_step import NestedStep
from tests.automata.brute_force import targets_by_bytes
from tests.automata.test_pushdown import may_go_on, run_bytes

Legal = NDArray[np.bool_]


class Judge(Protocol):
    """Says which tokens are legal after a text."""

    def legal(self, said: bytes, vocabulary: lk.Vocabulary) -> Legal:
        """Return [V] bool."""
        ...


class Matching:
    """The text has to match a pattern: an automaton over bytes reads each token.

    Args:
        dfa: The automaton that the campaign on patterns compares with `re`.
    """

    def __init__(self, dfa: ByteDfa) -> None:
        self.dfa = dfa

    def legal(self, said: bytes, vocabulary: lk.Vocabulary) -> Legal:
        alive: Legal = targets_by_bytes(self.dfa, vocabulary, self.dfa.run(said)) != DEAD
        return alive


class Nesting:
    """The text has to satisfy a schema: an automaton over bytes with a stack reads each token.

    Args:
        dfa: The automaton that the campaign on schemas compares with `jsonschema`.
        max_depth: Most brackets that are open at once.
    """

    def __init__(self, dfa: NestedDfa, max_depth: int) -> None:
        self.dfa, self.max_depth = dfa, max_depth
        # Tokens that open and close nothing are read together, by an automaton in which brackets lead nowhere.
        flat = np.where(NestedStep.is_state(dfa.step), dfa.step, DEAD).astype(np.int32)
        self.flat = ByteDfa(flat, dfa.byte_class, np.zeros(dfa.states, np.bool_), dfa.start)
        self.opens_or_closes = bytes(
            b for b in range(256) if not NestedStep.is_state(dfa.step[:, dfa.byte_class[b]]).all()
        )

    def legal(self, said: bytes, vocabulary: lk.Vocabulary) -> Legal:
        state, stack, _ = run_bytes(self.dfa, said)
        found: Legal = targets_by_bytes(self.flat, vocabulary, state) != DEAD
        if not may_go_on(self.dfa, said, self.max_depth):
            found[:] = False
        for i, token in enumerate(vocabulary.tokens):
            if token is not None and not found[i] and len(token.translate(None, self.opens_or_closes)) < len(token):
                found[i] = may_go_on(self.dfa, said + token, self.max_depth)
        found[list(vocabulary.eos_ids)] = bool(self.dfa.accepting[state]) and not stack
        return found


class Avoiding:
    """The text must not contain any of some texts.

    Args:
        banned: UTF-8.
    """

    def __init__(self, banned: tuple[bytes, ...]) -> None:
        self.banned = banned

    def legal(self, said: bytes, vocabulary: lk.Vocabulary) -> Legal:
        tail = said[-max(map(len, self.banned)) :]
        return np.array(
            [token is None or not any(b in tail + token for b in self.banned) for token in vocabulary.tokens]
        )


class Beginning:
    """The text has to begin with one text, and then match a pattern.

    Args:
        prefix: The beginning of the text.
        rest: The automaton of the rest; None allows anything.
    """

    def __init__(self, prefix: bytes, rest: ByteDfa | None) -> None:
        self.prefix, self.rest = prefix, rest

    def legal(self, said: bytes, vocabulary: lk.Vocabulary) -> Legal:
        found = np.zeros(vocabulary.size, np.bool_)
        if len(said) >= len(self.prefix):
            if self.rest is None:
                found[:] = True
                return found
            return Matching(self.rest).legal(said[len(self.prefix) :], vocabulary)
        for i, token in enumerate(vocabulary.tokens):
            whole = said + token if token is not None else b""
            if whole.startswith(self.prefix):
                rest = whole[len(self.prefix) :]
                found[i] = self.rest is None or self.rest.run(rest) != DEAD
            elif whole:
                found[i] = self.prefix.startswith(whole)
        return found


class AfterMarker:
    """Anything up to the first marker, and after it a text that matches a pattern.

    Args:
        marker: UTF-8.
        second: The automaton of what follows it.
    """

    def __init__(self, marker: bytes, second: ByteDfa) -> None:
        self.marker, self.second = marker, second

    def legal(self, said: bytes, vocabulary: lk.Vocabulary) -> Legal:
        _, found, answer = said.partition(self.marker)
        if found:
            return Matching(self.second).legal(answer, vocabulary)
        tail = said[-len(self.marker) :]
        legal = np.ones(vocabulary.size, np.bool_)
        for i, token in enumerate(vocabulary.tokens):
            if token is not None:
                _, complete, rest = (tail + token).partition(self.marker)
                legal[i] = not complete or self.second.run(rest) != DEAD
        legal[list(vocabulary.eos_ids)] = False
        return legal
