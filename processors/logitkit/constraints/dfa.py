"""The token ids follow a hand-written automaton."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from logitkit.automata.behaviours import Behaviours, merge, starts
from logitkit.automata.byte_dfa import FIRST_STATE
from logitkit.automata.token_automaton import TokenAutomaton
from logitkit.constraints.constraint import AutomatonConstraint, check_has_eos
from logitkit.errors import ConfigurationError
from logitkit.integers import as_integer
from logitkit.vocabulary import Vocabulary

__all__ = ["Dfa"]


@dataclass(frozen=True, eq=False)
class Dfa(AutomatonConstraint):
    """Allow only the sequences of token ids that a deterministic automaton accepts.

    A token after which no accepting state can be reached is never allowed, so no row gets stuck.

    Args:
        transitions: `{(state, token_id): next_state}`; what is not listed is illegal. States are any hashable values, and
            ids need no text.
        start: The start state.
        accepting: States in which EOS is legal.
        vocabulary: The tokens: size and EOS ids.

    Raises:
        ConfigurationError: A token id is no integer, out of range or an EOS id, a state is not hashable, an argument has
            another form, or no accepting state can be reached.
        VocabularyError: The vocabulary has no EOS id.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", b"c", None], eos_ids=[3])
        >>> dfa = lk.Dfa({(0, 0): 7, (7, 1): 0}, start=0, accepting={0}, vocabulary=vocabulary)
        >>> context = lk.Context.of([[2]], vocabulary_size=4)
        >>> dfa.process_logits(dfa.init_state(context), torch.zeros(1, 4), context)[1]
        tensor([[0., -inf, -inf, 0.]])
    """

    # A mapping is invariant in its keys: with Hashable for Any, a dict of int states would not type-check.
    transitions: Mapping[tuple[Any, int], Hashable]
    start: Hashable
    accepting: Collection[Hashable]
    vocabulary: Vocabulary
    automaton: TokenAutomaton = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        object.__setattr__(self, "transitions", _checked_transitions(self.transitions))
        _check_states(self.start, self.accepting)
        object.__setattr__(self, "automaton", self._compile())

    def _compile(self) -> TokenAutomaton:
        number: dict[Hashable, int] = {self.start: FIRST_STATE}
        sources: dict[Hashable, list[Hashable]] = defaultdict(list)
        for (source, token), target in self.transitions.items():
            self._check_id(source, token)
            for state in (source, target):
                number.setdefault(state, FIRST_STATE + len(number))
            sources[target].append(source)
        accepting = np.zeros(FIRST_STATE + len(number), bool)
        accepting[[number[state] for state in self.accepting if state in number]] = True
        alive = _with_sources([state for state in self.accepting if state in number], sources)
        if self.start not in alive:
            raise ConfigurationError(f"no accepting state can be reached from the start state {self.start!r}")
        moves: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for (source, token), target in self.transitions.items():
            if target in alive:
                moves[token].append((number[source], number[target]))
        pairs = np.array([pair for run in moves.values() for pair in sorted(run)], np.int64).reshape(-1, 2)
        table = Behaviours(
            np.zeros(len(moves), np.int64), starts(np.array([len(run) for run in moves.values()], np.int64)), *pairs.T
        )
        table, class_of_move = merge(table)
        class_of = np.zeros(self.vocabulary.size, np.int64)
        class_of[list(moves)] = class_of_move
        return TokenAutomaton.of(
            class_of, table, accepting, FIRST_STATE, self.vocabulary.eos_ids, self.vocabulary.pad_id
        )

    def _check_id(self, source: Hashable, token: int) -> None:
        if not 0 <= token < self.vocabulary.size:
            raise ConfigurationError(
                f"the transition from {source!r} reads token {token}; allowed are ids from 0 to {self.vocabulary.size - 1}"
            )
        if token in self.vocabulary.eos_ids:
            raise ConfigurationError(
                f"the transition from {source!r} reads the EOS id {token}; EOS is legal in accepting states by itself, so list "
                "the state in accepting instead"
            )


def _with_sources(states: Sequence[Hashable], sources: Mapping[Hashable, Sequence[Hashable]]) -> set[Hashable]:
    """Return some states and all from which one of them is reached."""
    found, todo = set(states), list(states)
    while todo:
        fresh = [source for source in sources.get(todo.pop(), ()) if source not in found]
        found.update(fresh)
        todo += fresh
    return found


def _checked_transitions(given: object) -> dict[tuple[Any, int], Hashable]:
    """Return the transitions with every token id as an int."""
    if not isinstance(given, Mapping):
        raise ConfigurationError(
            f"transitions is a {type(given).__name__}; give a dict {{(state, token_id): next_state}}"
        )
    checked: dict[tuple[Any, int], Hashable] = {}
    for key, target in given.items():
        if not isinstance(key, tuple) or len(key) != 2:
            raise ConfigurationError(f"transitions has the key {key!r}; allowed are pairs (state, token_id)")
        token = as_integer(key[1])
        if token is None:
            raise ConfigurationError(
                f"the transition from {key[0]!r} reads {key[1]!r} of type {type(key[1]).__name__}; allowed are integer token ids"
            )
        if not _hashable(target):
            raise ConfigurationError(f"the transition {key!r} leads to {target!r}; states must be hashable")
        checked[key[0], token] = target
    return checked


def _check_states(start: object, accepting: object) -> None:
    if not _hashable(start):
        raise ConfigurationError(f"start is {start!r}; states must be hashable")
    if isinstance(accepting, str | bytes) or not isinstance(accepting, Collection):
        raise ConfigurationError(f"accepting is {accepting!r}; give a collection of states, such as a set")
    for state in accepting:
        if not _hashable(state):
            raise ConfigurationError(f"accepting has {state!r}; states must be hashable")


def _hashable(state: object) -> bool:
    # Only hashing tells: a tuple that holds a list is a Hashable too.
    try:
        hash(state)
    except TypeError:
        return False
    return True
