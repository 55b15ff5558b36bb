"""`Dfa`: transitions over token ids, written by hand."""

from __future__ import annotations

import tracemalloc
from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, VocabularyError
from tests.examples import examples
from tests.processors.four_logits import NEVER, after

# Ids:                             0     1     2     3 = EOS
ABC = lk.Vocabulary([b"a", b"b", b"c", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]


def test_only_listed_tokens() -> None:
    dfa = lk.Dfa({(0, 0): 1, (0, 2): 2, (1, 1): 2}, start=0, accepting={2}, vocabulary=ABC)
    assert after(dfa, [], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(dfa, [0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(dfa, [2], LOGITS) == [NEVER, NEVER, NEVER, 3.0]


def test_state_0_is_a_state_like_any_other() -> None:
    dfa = lk.Dfa({(5, 0): 0, (0, 1): 5}, start=5, accepting={5}, vocabulary=ABC)
    assert after(dfa, [], LOGITS) == [0.5, NEVER, NEVER, 3.0]
    assert after(dfa, [0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(dfa, [0, 1], LOGITS) == [0.5, NEVER, NEVER, 3.0]


def test_states_have_any_names() -> None:
    dfa = lk.Dfa({("start", 0): -7, (-7, 0): 10**12, (10**12, 1): None}, "start", [None], ABC)
    assert after(dfa, [], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert after(dfa, [0, 0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(dfa, [0, 0, 1], LOGITS) == [NEVER, NEVER, NEVER, 3.0]


def test_loops_leave_the_state_what_it_is() -> None:
    dfa = lk.Dfa({(1, 0): 1, (1, 1): 2}, start=1, accepting={1, 2}, vocabulary=ABC)
    assert after(dfa, [0, 0, 0], LOGITS) == [0.5, -1.0, NEVER, 3.0]
    assert after(dfa, [0, 1], LOGITS) == [NEVER, NEVER, NEVER, 3.0]


def test_tokens_that_lead_into_a_dead_end_are_illegal() -> None:
    dfa = lk.Dfa({(0, 0): 1, (1, 0): 1, (0, 1): 2, (2, 2): 3}, start=0, accepting={3}, vocabulary=ABC)
    assert after(dfa, [], LOGITS) == [NEVER, -1.0, NEVER, NEVER]
    assert after(dfa, [0], LOGITS) == [NEVER, NEVER, NEVER, 0.0]


def test_after_eos_only_eos_and_a_dead_row_ends() -> None:
    dfa = lk.Dfa({(0, 0): 0}, start=0, accepting={0}, vocabulary=ABC)
    assert after(dfa, [0, 3], LOGITS) == [NEVER, NEVER, NEVER, 3.0]
    assert after(dfa, [1], LOGITS) == [NEVER, NEVER, NEVER, 0.0]


def test_ids_need_no_text() -> None:
    special = lk.Vocabulary([b"a", None, None, None], eos_ids=[3])
    assert after(lk.Dfa({(0, 1): 1}, 0, {1}, special), [], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_nothing_but_the_end() -> None:
    assert after(lk.Dfa({}, start="s", accepting={"s"}, vocabulary=ABC), [], LOGITS) == [
        NEVER,
        NEVER,
        NEVER,
        3.0,
    ]


def test_the_prompt_is_not_part_of_the_sequence() -> None:
    dfa = lk.Dfa({(0, 0): 1}, start=0, accepting={1}, vocabulary=ABC)
    assert after(dfa, [], LOGITS, prompt=[0, 1, 2]) == [0.5, NEVER, NEVER, NEVER]


def test_later_changes_to_the_mapping_change_nothing() -> None:
    moves = {(0, 0): 1}
    dfa = lk.Dfa(moves, start=0, accepting={1}, vocabulary=ABC)
    moves[0, 1] = 1
    assert after(dfa, [], LOGITS) == [0.5, NEVER, NEVER, NEVER]
    assert dfa.transitions == {(0, 0): 1}


MANY = 62_500


def _chain() -> tuple[dict[tuple[int, int], int], int, set[int]]:
    return {(i, i % 3): i + 1 for i in range(MANY)}, 0, {MANY}


def _chain_of_names() -> tuple[dict[tuple[str, int], str], str, set[str]]:
    return {(f"s{i}", i % 3): f"s{i + 1}" for i in range(MANY)}, "s0", {f"s{MANY}"}


def _chain_that_accepts_everywhere() -> tuple[dict[tuple[int, int], int], int, set[int]]:
    moves, start, _ = _chain()
    return moves, start, {*range(MANY + 1)}


def _few_states() -> tuple[dict[tuple[int, int], int], int, set[int]]:
    return {(s, i): (7 * s + i) % 125 for s in range(125) for i in range(500)}, 0, {5}


@pytest.mark.parametrize("shape", [_chain, _chain_of_names, _chain_that_accepts_everywhere, _few_states])
def test_a_transition_takes_at_most_100_bytes(shape: Any) -> None:
    vocabulary = lk.Vocabulary([*[b"a"] * 500, None], eos_ids=[500])
    moves: dict[tuple[Any, int], Hashable]
    moves, start, accepting = shape()
    tracemalloc.start()
    try:
        dfa = lk.Dfa(moves, start, accepting, vocabulary)
        assert tracemalloc.get_traced_memory()[1] <= 100 * MANY
    finally:
        tracemalloc.stop()
    states = {state for (state, _), target in moves.items() for state in (state, target)}
    assert np.count_nonzero(dfa.automaton.accepting) == len(accepting)
    assert dfa.automaton.states == len(states) + 2


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(st.tuples(st.integers(0, 5), st.integers(0, 2)), st.integers(0, 5), max_size=14),
    st.sets(st.integers(0, 5), min_size=1),
    st.integers(0, 5),
)
def test_legal_is_what_can_still_be_accepted(
    moves: dict[tuple[int, int], int], accepting: set[int], start: int
) -> None:
    alive = set(accepting)
    while more := {s for (s, _), t in moves.items() if t in alive} - alive:
        alive |= more
    if start not in alive:
        with pytest.raises(ConfigurationError, match=f"no accepting state can be reached from the start state {start}"):
            lk.Dfa(moves, start, accepting, ABC)
        return
    automaton = lk.Dfa(moves, start, accepting, ABC).automaton
    pairs = {(start, automaton.start)}
    todo = list(pairs)
    while todo:
        name, number = todo.pop()
        assert automaton.accepting[number] == (name in accepting)
        assert (automaton.next(number, 3) == 1) == (name in accepting)
        for token in range(3):
            target = moves.get((name, token))
            reached = automaton.next(number, token)
            assert (reached > 1) == (target in alive)
            if target is not None and reached > 1 and (target, reached) not in pairs:
                pairs.add((target, reached))
                todo.append((target, reached))
    assert len({n for n, _ in pairs}) == len({r for _, r in pairs}) == len(pairs)


def test_ids_out_of_range() -> None:
    with pytest.raises(ConfigurationError, match="the transition from 'a' reads token 4; allowed are ids from 0 to 3"):
        lk.Dfa({("a", 4): "b"}, "a", {"b"}, ABC)
    with pytest.raises(ConfigurationError, match="reads token -1; allowed are ids from 0 to 3"):
        lk.Dfa({(0, -1): 1}, 0, {1}, ABC)


def test_eos_is_not_for_transitions() -> None:
    with pytest.raises(ConfigurationError, match="reads the EOS id 3; EOS is legal in accepting states by itself"):
        lk.Dfa({(0, 3): 1}, 0, {1}, ABC)


def test_no_accepting_state() -> None:
    with pytest.raises(ConfigurationError, match="no accepting state can be reached from the start state 0"):
        lk.Dfa({(0, 0): 0}, 0, {7}, ABC)


def test_a_vocabulary_without_eos() -> None:
    with pytest.raises(VocabularyError, match="no EOS id"):
        lk.Dfa({(0, 0): 0}, 0, {0}, lk.Vocabulary([b"a"], eos_ids=[]))


@pytest.mark.parametrize(
    ("transitions", "start", "accepting", "message"),
    [
        ("", 0, {1}, "transitions is of type str; give a dict"),
        ({0: 1}, 0, {1}, r"has the key 0; allowed are pairs \(state, token_id\)"),
        ({(0, 0, 0): 1}, 0, {1}, "allowed are pairs"),
        ({(0, "a"): 1}, 0, {1}, "the transition from 0 reads 'a' of type str; allowed are integer token ids"),
        ({(0, True): 1}, 0, {1}, "reads True of type bool"),
        ({(0, 1.0): 1}, 0, {1}, "reads 1.0 of type float"),
        ({(0, 0): [1]}, 0, {1}, r"leads to \[1\]; states must be hashable"),
        ({(0, 0): 1}, [0], {1}, r"start is \[0\]; states must be hashable"),
        ({(0, 0): 1}, 0, 1, "accepting is 1; give a collection of states"),
        ({(0, 0): 1}, 0, "1", "accepting is '1'; give a collection of states"),
        ({(0, 0): 1}, 0, [1, ([],)], r"accepting has \(\[\],\); states must be hashable"),
    ],
)
def test_arguments_of_another_form(transitions: Any, start: Any, accepting: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.Dfa(transitions, start, accepting, ABC)


def test_triples_are_transitions() -> None:
    of_mapping = lk.Dfa({("a", 0): "b", ("b", 1): "a"}, "a", {"a"}, ABC)
    for triples in (
        [("a", 0, "b"), ("b", 1, "a")],
        [["a", 0, "b"], ["b", 1, "a"]],
        iter([("a", 0, "b"), ("b", 1, "a")]),
    ):
        dfa = lk.Dfa(triples, "a", {"a"}, ABC)
        assert dfa.transitions == of_mapping.transitions
        assert dfa.automaton.content_key == of_mapping.automaton.content_key
    configured = lk.to_config(of_mapping)["dfa"]
    assert lk.Dfa(**configured, vocabulary=ABC).transitions == of_mapping.transitions


@pytest.mark.parametrize(
    ("triples", "message"),
    [
        ([(0, 0, 1), (0, 0, 2)], "two next states for state 0 and token 0: 1 and 2; give one"),
        ([(0, 0)], r"transitions has \(0, 0\); allowed are triples"),
        ([(0, "a", 1)], "the transition from 0 reads 'a' of type str"),
        ([([], 0, 1)], "a transition begins in"),
        (5, "transitions is of type int; give a dict .* or triples"),
    ],
)
def test_triples_that_are_refused(triples: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.Dfa(triples, 0, {1}, ABC)


def test_ids_of_numpy_are_ids() -> None:
    one = lk.Dfa({(0, np.int64(1)): 1}, 0, {1}, ABC)
    assert one.automaton.content_key == lk.Dfa({(0, 1): 1}, 0, {1}, ABC).automaton.content_key
