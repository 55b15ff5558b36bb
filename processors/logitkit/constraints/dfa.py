"""Dfa: the token ids follow a hand-written automaton."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.bytes.transition_columns import Ints, TransitionColumns, merge, starts
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import ConfigurationError
from logitkit.parameters import ListOf, Moves, State
from logitkit.parameters.scalars import as_integer
from logitkit.protocol.kind import Kind
from logitkit.runtime.compiled_language import check_has_eos
from logitkit.runtime.constraint import Constraint
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Dfa"]


@dataclass(frozen=True, eq=False)
class Dfa(Constraint):
    """Allow only the sequences of token ids that a deterministic automaton accepts.

    A token after which no accepting state can be reached is never allowed, so rows do not get stuck.

    Args:
        transitions: `{(state, token_id): next_state}`, or triples `(state, token_id, next_state)`; all other transitions are
            illegal. States are any hashable values, and ids need no text.
        start: The start state.
        accepting: States in which EOS is legal.
        vocabulary: The tokens; only their number and the EOS ids matter.

    Raises:
        ConfigurationError: A token id is not an integer in range, or is an EOS id; a state is not hashable; an argument has the
            wrong type; or no accepting state can be reached.
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

    kind = Kind("dfa", {"transitions": Moves(), "start": State(), "accepting": ListOf(State(), 0)}, order=80)

    # Mappings are invariant in their keys: with Hashable instead of Any, a dict of int states would not type-check.
    transitions: Mapping[tuple[Any, int], Hashable] | Iterable[Sequence[Any]]
    start: Hashable
    accepting: Collection[Hashable]
    vocabulary: Vocabulary

    def __post_init__(self) -> None:
        check_has_eos(self.vocabulary)
        transitions = _checked_transitions(self.transitions)
        _check_states(self.start, self.accepting)
        _check_ids(transitions, self.vocabulary)
        left_out = self.vocabulary.left_out
        usable = {key: to for key, to in transitions.items() if key[1] not in left_out} if left_out else transitions
        moves = _moves(usable, self.start, self.accepting)
        alive = _alive(moves)
        if not alive[FIRST_STATE]:
            raise ConfigurationError(f"no accepting state can be reached from the start state {self.start!r}")
        object.__setattr__(self, "automaton", self._automaton(moves, alive))
        # Copied last, because the copy and the numbered states together would take twice the memory.
        object.__setattr__(self, "transitions", dict(transitions))

    def _automaton(self, moves: _Transitions, alive: NDArray[np.bool_]) -> TokenAutomaton:
        kept = np.flatnonzero(alive[moves.target])
        # Sorted by token, then by source.
        kept = kept[np.lexsort((moves.source[kept], moves.token[kept]))]
        tokens, counts = np.unique(moves.token[kept], return_counts=True)
        table = TransitionColumns(
            np.zeros(len(tokens), np.int32), starts(counts), moves.source[kept], moves.target[kept]
        )
        del kept
        table, class_of_token = merge(table)
        class_of = np.zeros(self.vocabulary.size, np.int64)
        class_of[tokens] = class_of_token
        return TokenAutomaton.of(
            class_of, table, moves.accepting, FIRST_STATE, self.vocabulary.eos_ids, self.vocabulary.pad_id
        )


class _Transitions(NamedTuple):
    """Transitions between numbered states; the start state has the first number.

    Args:
        source: [E] int32, the state before each transition.
        token: [E] int32, the token that it reads.
        target: [E] int32, the state after it.
        accepting: [S] bool.
    """

    source: Ints
    token: Ints
    target: Ints
    accepting: NDArray[np.bool_]


def _moves(
    transitions: Mapping[tuple[Any, int], Hashable], start: Hashable, accepting: Collection[Hashable]
) -> _Transitions:
    """Number the states without creating an object per transition, of which there may be millions."""
    number: defaultdict[Hashable, int] = defaultdict(count(FIRST_STATE).__next__)
    # The start state gets the first number.
    number[start]
    edges = len(transitions)
    ends = chain(map(itemgetter(0), transitions), transitions.values())
    try:
        states = np.fromiter(map(number.__getitem__, ends), np.int32, 2 * edges)
    except TypeError:
        for key, target in transitions.items():
            _check_state(f"the transition {key!r} leads to", target)
        raise
    accepts = np.zeros(FIRST_STATE + len(number), bool)
    accepts[np.fromiter((number[state] for state in accepting if state in number), np.int32)] = True
    del number
    token = np.fromiter(map(itemgetter(1), transitions), np.int32, edges)
    return _Transitions(states[:edges], token, states[edges:], accepts)


def _alive(moves: _Transitions) -> NDArray[np.bool_]:
    """Return [S] bool, the states from which an accepting one can be reached."""
    states = len(moves.accepting)
    sources = memoryview(moves.source[np.argsort(moves.target, kind="stable")])  # type: ignore[arg-type]
    first = memoryview(starts(np.bincount(moves.target, minlength=states)))  # type: ignore[arg-type]
    alive = bytearray(moves.accepting)
    # State by state, not in rounds over arrays: in a long chain, each state would take its own round.
    todo = array("i", np.flatnonzero(moves.accepting).astype(np.int32).tobytes())
    while todo:
        state = todo.pop()
        for source in sources[first[state] : first[state + 1]]:
            if not alive[source]:
                alive[source] = True
                todo.append(source)
    return np.frombuffer(alive, np.bool_)


def _check_ids(transitions: Mapping[tuple[Any, int], Hashable], vocabulary: Vocabulary) -> None:
    read = set(map(itemgetter(1), transitions))
    for token in sorted(read.intersection(vocabulary.eos_ids))[:1]:
        source = next(source for source, reads in transitions if reads == token)
        raise ConfigurationError(
            f"the transition from {source!r} reads the EOS id {token}; EOS is legal in accepting states by itself, so list the "
            "state in accepting instead"
        )
    if read and not 0 <= min(read) <= max(read) < vocabulary.size:
        source, token = next(key for key in transitions if not 0 <= key[1] < vocabulary.size)
        raise ConfigurationError(
            f"the transition from {source!r} reads token {token}; allowed are ids from 0 to {vocabulary.size - 1}"
        )


def _checked_transitions(given: object) -> dict[tuple[Any, int], Hashable]:
    """Return the transitions with every token id as an int; the given ones if they already are."""
    if not isinstance(given, Mapping):
        given = _of_triples(given)
    if type(given) is dict and set(map(type, given)) <= {tuple} and set(map(len, given)) <= {2}:
        ids: set[type] = set(map(type, map(itemgetter(1), given)))
        if ids <= {int}:
            return given
    checked: dict[tuple[Any, int], Hashable] = {}
    for key, target in given.items():
        if not isinstance(key, tuple) or len(key) != 2:
            raise ConfigurationError(f"transitions has the key {key!r}; allowed are pairs (state, token_id)")
        checked[key[0], _checked_token(key[0], key[1])] = target
    return checked


def _of_triples(given: object) -> dict[tuple[Any, int], Any]:
    """Return triples as a mapping.

    Raises:
        ConfigurationError: Something is not a triple, or two triples have the same state and token.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ConfigurationError(
            f"transitions is of type {type(given).__name__}; give a dict {{(state, token_id): next_state}}, or triples "
            "(state, token_id, next_state)"
        )
    found: dict[tuple[Any, int], Any] = {}
    for triple in given:
        if not isinstance(triple, tuple | list) or len(triple) != 3:
            raise ConfigurationError(f"transitions has {triple!r}; allowed are triples (state, token_id, next_state)")
        state, read, target = triple
        _check_state("a transition begins in", state)
        token = _checked_token(state, read)
        if found.setdefault((state, token), target) != target:
            raise ConfigurationError(
                f"transitions has two next states for state {state!r} and token {token}: {found[state, token]!r} and {target!r}; "
                "give one"
            )
    return found


def _checked_token(state: Any, given: Any) -> int:
    token = as_integer(given)
    if token is None:
        raise ConfigurationError(
            f"the transition from {state!r} reads {given!r} of type {type(given).__name__}; allowed are integer token ids"
        )
    return token


def _check_states(start: object, accepting: object) -> None:
    _check_state("start is", start)
    if isinstance(accepting, str | bytes) or not isinstance(accepting, Collection):
        raise ConfigurationError(f"accepting is {accepting!r}; give a collection of states, such as a set")
    for state in accepting:
        _check_state("accepting has", state)


def _check_state(place: str, state: object) -> None:
    """Raise `ConfigurationError` if a value cannot be a state; `place` is the beginning of the message."""
    # Only hashing tells: a tuple that contains a list is an instance of Hashable too.
    try:
        hash(state)
    except TypeError:
        raise ConfigurationError(f"{place} {state!r}; states must be hashable") from None
