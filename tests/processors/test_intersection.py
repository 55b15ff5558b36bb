"""Neighbouring constraints of a chain: together they allow what each allows, and never get stuck."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.limits import DEFAULT_LIMITS
from tests.examples import examples
from tests.patterns.strategies import matches_in_re

VOCABULARY = lk.Vocabulary([b"a", b"b", b"c", b"ab", b"ba", None], eos_ids=[5])
NEVER = float("-inf")
PATTERNS = ["a*b*", ".*ba?", "[abc]{2,4}", "(ab)*", "a|b|c|ab", "(?!.*aa)[ab]*", "c?(a|bc)*", ".{3}"]


def masked(processor: lk.Chain, tokens: list[int]) -> list[float]:
    context = lk.Context.of([[]], vocabulary_size=6)
    state = processor.init_state(context)
    state = processor.advance(state, torch.tensor([tokens], dtype=torch.int64))
    row: list[float] = processor.process_logits(state, torch.zeros(1, 6), context)[1][0].tolist()
    return row


def test_four_logits_by_hand() -> None:
    both = lk.chain(lk.Regex("a*b", VOCABULARY), lk.Regex("(ab|b)c?", VOCABULARY))
    #                           a    b     c      ab   ba     end
    assert masked(both, []) == [0.0, 0.0, NEVER, 0.0, NEVER, NEVER]
    assert masked(both, [0]) == [NEVER, 0.0, NEVER, NEVER, NEVER, NEVER]
    assert masked(both, [3]) == [NEVER, NEVER, NEVER, NEVER, NEVER, 0.0]


def test_two_masks_that_would_meet_in_nothing() -> None:
    # "ab..." is a way into both, but out of neither together: only "ac" is left.
    both = lk.chain(lk.Regex("ab+|ac", VOCABULARY), lk.Regex("abc|ac", VOCABULARY))
    assert masked(both, []) == [0.0, NEVER, NEVER, NEVER, NEVER, NEVER]
    assert masked(both, [0]) == [NEVER, NEVER, 0.0, NEVER, NEVER, NEVER]


@settings(max_examples=examples(120))
@given(st.lists(st.sampled_from(PATTERNS), min_size=2, max_size=3))
def test_the_language_is_the_intersection(patterns: list[str]) -> None:
    texts = {"".join(t) for n in range(5) for t in itertools.product("abc", repeat=n)}
    expected = {t for t in texts if all(matches_in_re(p, t) for p in patterns)}
    try:
        both = lk.chain(*(lk.Regex(p, VOCABULARY) for p in patterns)).processors[0]
    except ConfigurationError:
        assert not expected
        return
    assert isinstance(both, lk.Intersection)
    found = set()
    for text in texts:
        state = both.automaton.start
        for character in text:
            state = both.automaton.next(state, "abc".index(character))
        if both.automaton.accepting[state]:
            found.add(text)
    assert found == expected


def test_a_dfa_over_ids_and_a_choice_take_part() -> None:
    dfa = lk.Dfa({(0, 0): 1, (1, 1): 2, (0, 3): 2, (2, 2): 2}, start=0, accepting={2}, vocabulary=VOCABULARY)
    both = lk.chain(dfa, lk.Choice(["abc", "ac", "ba"], VOCABULARY))
    assert masked(both, []) == [0.0, NEVER, NEVER, 0.0, NEVER, NEVER]
    assert masked(both, [3]) == [NEVER, NEVER, 0.0, NEVER, NEVER, NEVER]


def test_no_common_text_is_refused_when_the_chain_is_made() -> None:
    with pytest.raises(
        ConfigurationError, match=r"no text is allowed by all constraints of the chain \(Regex, Regex\)"
    ):
        lk.chain(lk.Regex("a+", VOCABULARY), lk.Regex("b+", VOCABULARY))


def test_other_vocabularies_are_refused() -> None:
    other = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
    with pytest.raises(ConfigurationError, match="different vocabularies"):
        lk.chain(lk.Regex("a+", VOCABULARY), lk.Regex("a+", other))


def test_chains_of_chains_join_once() -> None:
    one, two, three = (lk.Regex(p, VOCABULARY) for p in (".*", "a*b*", "[ab]{2}"))
    nested = lk.chain(lk.chain(one, two), three)
    assert nested == lk.chain(one, two, three)
    assert [type(p) for p in nested.processors] == [lk.Intersection]


def test_constraints_that_are_not_adjacent_stay_apart() -> None:
    regex = lk.Regex("a*", VOCABULARY)
    apart = lk.chain(regex, lk.RepetitionPenalty(1.2), regex)
    assert [type(p) for p in apart.processors] == [lk.Regex, lk.RepetitionPenalty, lk.Regex]


def test_a_row_that_constraints_apart_leave_empty_ends_with_eos() -> None:
    a, b = lk.Regex("a", VOCABULARY), lk.Regex("b", VOCABULARY)
    apart = lk.chain(a, lk.RepetitionPenalty(1.2), b)
    assert masked(apart, []) == [NEVER, NEVER, NEVER, NEVER, NEVER, 0.0]
    assert masked(lk.chain(a, lk.RepetitionPenalty(1.2), a), []) == [0.0, NEVER, NEVER, NEVER, NEVER, NEVER]


def test_a_real_vocabulary_agrees_with_re(tekken: lk.Vocabulary) -> None:
    patterns = [r"(?i)[a-z]+( [a-z]+){1,4}", r"(?!.*the).{5,30}"]
    both = lk.Intersection(tuple(lk.Regex(p, tekken) for p in patterns))
    generator = torch.Generator().manual_seed(1)
    for _ in range(20):
        state, text = both.automaton.start, b""
        while True:
            legal = torch.from_numpy(np.flatnonzero(both.automaton.per_token(both.automaton.legal_classes(state))))
            token = int(legal[torch.randint(len(legal), (1,), generator=generator)])
            state = both.automaton.next(state, token)
            if token in tekken.eos_ids:
                break
            text += tekken.tokens[token] or b""
        assert all(re.fullmatch(p, text.decode()) for p in patterns)
    assert both.limits == DEFAULT_LIMITS


@pytest.mark.parametrize("closing", [False, 9])
def test_a_part_that_is_not_a_finite_automaton_is_refused(closing: bool | int) -> None:
    vocabulary = lk.Vocabulary([*[bytes([b]) for b in range(128)], None], eos_ids=[128])
    parts = lk.JsonSchema({}, vocabulary, closing=closing), lk.Regex("[a-z]*", vocabulary)
    with pytest.raises(ConfigurationError, match=r"this JsonSchema nests without limit, or .* in a chain instead"):
        lk.Intersection(parts)
