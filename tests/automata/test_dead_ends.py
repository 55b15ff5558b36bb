"""Vocabularies that cannot spell every text: no legal token leads where nothing is legal."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import logitkit as lk
from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE
from logitkit.compiler.bytes.transition_columns import TransitionColumns, starts
from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.tokens.completion.dead_ends import may_have_dead_ends, without_dead_ends
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns import parse
from tests.automata.brute_force import targets_by_bytes, targets_by_table
from tests.automata.moore import live
from tests.examples import examples

PATTERNS = [
    "[a-c]*",
    "(ab)*c",
    "a{3}|b{4}|c",
    "(a|b)*a(a|b)c?",
    "a*b+c*",
    "(abc|acb|cab)+",
    r"[\s\S]*c",
    "a?b?c?a?b?c?",
]


@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PATTERNS), st.sets(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=6))
def test_legal_tokens_are_those_after_which_the_text_can_be_completed(pattern: str, words: set[str]) -> None:
    vocabulary = lk.Vocabulary([*(w.encode() for w in sorted(words)), None], eos_ids=[len(words)])
    dfa = byte_dfa_of(parse(pattern), DEFAULT_LIMITS)
    moves = np.array([targets_by_bytes(dfa, vocabulary, s) for s in range(len(dfa.step))])
    moves[[DEAD, FINISHED]] = DEAD
    moves[moves == FINISHED] = DEAD
    alive = live(moves, dfa.accepting)
    if not alive[dfa.start]:
        with pytest.raises(ConfigurationError, match="spell no text"):
            lk.Regex(pattern, vocabulary)
        return
    automaton = lk.Regex(pattern, vocabulary).automaton
    for state in np.flatnonzero(alive[FIRST_STATE:]) + FIRST_STATE:
        expected = np.where(alive[moves[state]], moves[state], DEAD)
        if dfa.accepting[state]:
            expected[vocabulary.eos_ids[0]] = FINISHED
        assert np.array_equal(targets_by_table(automaton, int(state)), expected)
        assert expected.any()


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(PATTERNS),
    st.sets(st.text("abc", min_size=1, max_size=4), min_size=3, max_size=6),
    st.integers(0, 2**32),
)
def test_walks_that_follow_the_mask_never_get_stuck(pattern: str, words: set[str], seed: int) -> None:
    vocabulary = lk.Vocabulary([*(w.encode() for w in sorted(words)), None], eos_ids=[len(words)])
    try:
        regex = lk.Regex(pattern, vocabulary)
    except ConfigurationError:
        return
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state = regex.init_state(context)
    choose = random.Random(seed)
    ids: list[int] = []
    for _ in range(12):
        legal = torch.isfinite(regex.process_logits(state, torch.zeros(1, vocabulary.size), context)[1][0])
        options = legal.nonzero().flatten().tolist()
        assert options
        ids.append(choose.choice(options))
        state = regex.advance(state, torch.tensor([ids[-1]]))
        assert not regex.is_dead(state)
        if ids[-1] in vocabulary.eos_ids:
            assert regex.is_finished(state)
            assert re.fullmatch(pattern, vocabulary.decode(ids).decode())
            break


@st.composite
def _tables(draw: st.DrawFn) -> tuple[TransitionColumns, NDArray[np.bool_]]:
    states, classes = draw(st.integers(3, 9)), draw(st.integers(1, 4))
    target = st.integers(0, states - 1).map(lambda t: DEAD if t == FINISHED else t)
    default = [draw(st.one_of(st.just(DEAD), st.just(STAY), target)) for _ in range(classes)]
    pairs: list[tuple[int, int]] = []
    counts = []
    for c in range(classes):
        listed = sorted(draw(st.sets(st.integers(FIRST_STATE, states - 1))))
        own = [(s, t) for s in listed if (t := draw(target)) != default[c]]
        counts.append(len(own))
        pairs += own
    flat = np.array(pairs, np.int64).reshape(-1, 2)
    accepting = np.array([False, False, *(draw(st.booleans()) for _ in range(states - 2))])
    return TransitionColumns(np.array(default), starts(np.array(counts)), flat[:, 0], flat[:, 1]), accepting


def _dense(table: TransitionColumns, states: int) -> NDArray[np.int64]:
    """Return [S, C]: every target, written out."""
    full = np.where(table.default == STAY, np.arange(states)[:, None], table.default)
    owner = np.repeat(np.arange(len(table)), np.diff(table.start))
    full[table.source, owner] = table.target
    full[[DEAD, FINISHED]] = DEAD
    return full


@settings(max_examples=examples(600), deadline=None, suppress_health_check=list(HealthCheck))
@given(_tables())
def test_tables_with_defaults(drawn: tuple[TransitionColumns, NDArray[np.bool_]]) -> None:
    table, accepting = drawn
    states = len(accepting)
    before = _dense(table, states)
    expected = live(before, accepting)
    after, alive = without_dead_ends(table, accepting)
    assert np.array_equal(alive[FIRST_STATE:], expected[FIRST_STATE:])
    kept = expected.copy()
    kept[[DEAD, FINISHED]] = False
    # The transitions of dead ends themselves do not matter, because nothing leads there.
    rows = np.flatnonzero(kept)
    assert np.array_equal(_dense(after, states)[rows], np.where(kept[before], before, DEAD)[rows])


@settings(max_examples=examples(600), deadline=None, suppress_health_check=list(HealthCheck))
@given(_tables(), st.data())
def test_tables_with_fallbacks(drawn: tuple[TransitionColumns, NDArray[np.bool_]], data: st.DataObject) -> None:
    table, accepting = drawn
    states = len(accepting)
    fallback = np.array([data.draw(st.integers(min(s, FIRST_STATE), s)) for s in range(states)])

    def dense(transitions: TransitionColumns) -> NDArray[np.int64]:
        own = np.repeat(np.arange(len(transitions)), np.diff(transitions.start))
        listed = {
            (s, c): t for s, c, t in zip(transitions.source.tolist(), own.tolist(), transitions.target, strict=True)
        }
        full = np.zeros((states, len(transitions)), np.int64)
        for s in range(FIRST_STATE, states):
            for c in range(len(transitions)):
                at = s
                while (at, c) not in listed and fallback[at] != at:
                    at = int(fallback[at])
                default = s if transitions.default[c] == STAY else transitions.default[c]
                full[s, c] = listed.get((at, c), default)
        return full

    before = dense(table)
    expected = live(before, accepting)
    after, alive = without_dead_ends(table, accepting, fallback)
    assert np.array_equal(alive[FIRST_STATE:], expected[FIRST_STATE:])
    kept = expected.copy()
    kept[[DEAD, FINISHED]] = False
    rows = np.flatnonzero(kept)
    assert np.array_equal(dense(after)[rows], np.where(kept[before], before, DEAD)[rows])


def test_only_bytes_that_the_language_has_must_be_tokens() -> None:
    digits = lk.Vocabulary([*(bytes([b]) for b in b"0123456789"), b"-", None], eos_ids=[11])
    assert not may_have_dead_ends(byte_dfa_of(parse(r"(?a)\d+-\d+"), DEFAULT_LIMITS), digits)
    assert may_have_dead_ends(byte_dfa_of(parse(r"(?a)\d+:\d+"), DEFAULT_LIMITS), digits)
    # A class of bytes needs one spelled byte; which one does not matter.
    assert not may_have_dead_ends(byte_dfa_of(parse(r"[0-9a-f]+"), DEFAULT_LIMITS), digits)
    with pytest.raises(ConfigurationError, match=r"spell no text that the pattern '\\\\d:' matches"):
        lk.Regex(r"\d:", digits)


def test_a_branch_that_cannot_be_spelled_is_closed_at_its_first_token() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", b"c", None], eos_ids=[3])
    regex = lk.Regex("abd|acb", vocabulary)
    context = lk.Context.of([[]], vocabulary_size=4)
    state = regex.advance(regex.init_state(context), torch.tensor([0]))
    processed = regex.process_logits(state, torch.zeros(1, 4), context)[1]
    assert processed.tolist() == [[-torch.inf, -torch.inf, 0.0, -torch.inf]]


def test_long_chains_of_states_are_quick_without_some_byte() -> None:
    vocabulary = lk.Vocabulary([*(bytes([b]) for b in range(0x41)), b"BB", None], eos_ids=[66])
    automaton = lk.Regex(r"[@-C]{1,5000}", vocabulary).automaton
    last = automaton.start
    for _ in range(2500):
        last = automaton.next(last, 65)
    assert automaton.next(last, 65) == DEAD
    assert automaton.next(last, vocabulary.eos_ids[0]) == FINISHED
