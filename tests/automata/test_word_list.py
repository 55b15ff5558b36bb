"""The automaton of a list of texts, against a set of them."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import FIRST_STATE
from logitkit.compiler.bytes.word_list import texts_of, word_list_dfa
from logitkit.compiler.language import byte_dfa_of
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns import parse
from tests.automata.moore import byte_class_matrix, live, moore, reachable
from tests.examples import examples

WORDS = st.one_of(
    st.binary(max_size=4),
    st.text("ab", max_size=5).map(str.encode),
    st.text("é日😀a", max_size=3).map(str.encode),
)


@settings(max_examples=examples(500), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(WORDS, min_size=1, max_size=10), st.lists(WORDS, max_size=10))
def test_accepts_exactly_the_words_and_is_minimal(words: list[bytes], others: list[bytes]) -> None:
    dfa = word_list_dfa(words, DEFAULT_LIMITS)
    prefixes = [w[:i] for w in words for i in range(len(w) + 1)]
    for text in [*words, *others, *prefixes, *(w + b"a" for w in words)]:
        assert dfa.accepts(text) == (text in words), text
        assert (dfa.run(text) >= FIRST_STATE) == (text in prefixes)
    step, accepting = byte_class_matrix(dfa)
    states = np.arange(FIRST_STATE, len(step))
    assert reachable(step, dfa.start)[states].all()
    assert live(step, accepting)[states].all()
    assert len(np.unique(moore(step, accepting)[states])) == len(states)


def test_the_empty_text_alone() -> None:
    dfa = word_list_dfa([b""], DEFAULT_LIMITS)
    assert dfa.accepts(b"")
    assert dfa.run(b"a") == 0


def test_twenty_thousand_words() -> None:
    words = [f"item-{i * 7919 % 1_000_003}-{i % 97}".encode() for i in range(20_000)]
    begin = time.perf_counter()
    dfa = word_list_dfa(words, DEFAULT_LIMITS)
    # A loaded machine takes a few times longer than the tenth of a second that this takes alone.
    assert time.perf_counter() - begin < 2
    assert all(dfa.accepts(w) for w in words)
    known = set(words)
    near = [n for w in words for n in (w[:-1], w + b"0", w[1:], w.replace(b"-", b"_"))]
    assert all(dfa.accepts(n) == (n in known) for n in near)


def test_too_many_states() -> None:
    with pytest.raises(PatternTooLarge, match="more than 10 states"):
        word_list_dfa([b"abcdefghijkl"], Limits(states=10))


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text("abé日😀.", min_size=2, max_size=4), min_size=2, max_size=8))
def test_a_pattern_that_is_a_choice_of_texts(words: list[str]) -> None:
    texts = texts_of(parse("|".join(map(re.escape, words))))
    assert texts is not None
    assert set(texts) == {w.encode() for w in words}
    for other in ("[bc]x", "x?", "", "(?:aa|bb)x", r"\bxx", "(?i:x)y", r"\ud800a"):
        assert texts_of(parse("|".join([*map(re.escape, words), other]))) is None


def test_long_choices_as_patterns() -> None:
    words = [f"{i * 7919 % 1009}x{'é' * (i % 3)}" for i in range(300)]
    by_words, by_positions = (byte_dfa_of(parse("|".join([*words, *more])), DEFAULT_LIMITS) for more in ([], ["[y]?q"]))
    assert by_words.step.shape[0] < by_positions.step.shape[0]
    for text in [*words, *(w[:-1] for w in words), *(w + "x" for w in words)]:
        assert by_words.accepts(text.encode()) == by_positions.accepts(text.encode()) == (text in words)
