"""Automata that look for texts: against `str.find`, and small however many texts there are."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.automaton_state import AutomatonState
from logitkit.runtime.device_rows import mask_on_device
from logitkit.runtime.registry_tables import advance_tensors
from logitkit.vocabulary import Vocabulary
from tests.automata.host_path import advance_rows, mask_on_host
from tests.examples import examples

TEXTS = st.lists(st.text("abc", min_size=1, max_size=5).map(str.encode), min_size=1, max_size=6)


def banning(texts: list[bytes], vocabulary: Vocabulary) -> TokenAutomaton:
    return token_automaton(Occurrences.of(texts, DEFAULT_LIMITS).without(), vocabulary, DEFAULT_LIMITS, "bans")


@settings(max_examples=examples(400))
@given(TEXTS, st.text("abcd", max_size=20).map(str.encode))
def test_the_longest_text_that_ends_at_each_byte(texts: list[bytes], text: bytes) -> None:
    found = Occurrences.of(texts, DEFAULT_LIMITS)
    state = 0
    for end in range(1, len(text) + 1):
        state = int(found.step[state, found.byte_class[text[end - 1]]])
        ending = [t for t in texts if text[:end].endswith(t)]
        if ending:
            assert texts[found.longest[state]] == max(ending, key=len)
        else:
            assert found.longest[state] == -1


@settings(max_examples=examples(400))
@given(TEXTS, st.text("abcd", max_size=20).map(str.encode))
def test_texts_without_any_occurrence(texts: list[bytes], text: bytes) -> None:
    dfa = Occurrences.of(texts, DEFAULT_LIMITS).without()
    assert dfa.accepts(text) == (not any(t in text for t in texts))


@settings(max_examples=examples(150))
@given(st.data())
def test_tokens_against_walking_their_bytes(data: st.DataObject) -> None:
    texts = data.draw(TEXTS)
    tokens = data.draw(st.lists(st.text("abcd", min_size=1, max_size=4).map(str.encode), min_size=1, max_size=20))
    vocabulary = Vocabulary([None, *tokens], eos_ids=[0])
    dfa = Occurrences.of(texts, DEFAULT_LIMITS).without()
    automaton = banning(texts, vocabulary)
    for state in range(FIRST_STATE, len(dfa.step)):
        legal = automaton.legal_classes(state)[automaton.class_of]
        for i, token in enumerate(tokens, 1):
            target = dfa.run(token, state)
            assert automaton.next(state, i) == target
            assert legal[i] == (target != DEAD)


def test_tensors_follow_the_fallbacks_as_rows_do() -> None:
    rng = random.Random(7)
    words = [bytes(rng.choices(b"abc", k=rng.randint(1, 4))) for _ in range(30)]
    vocabulary = Vocabulary([None, *dict.fromkeys(words)], eos_ids=[0])
    texts = [[b"abca", b"bcab", b"ccc", b"cab"], [b"bbbb", b"abab"]]
    automata = [banning(t, vocabulary) for t in texts]
    registry = AutomatonRegistry()
    handles = [registry.register(a) for a in automata]
    pairs = [(handle, s) for handle in handles for s in range(FIRST_STATE, handle.automaton.states)]
    state = AutomatonState(
        *(torch.tensor(column) for column in zip(*((le.slot, le.generation, s) for le, s in pairs), strict=True))
    )
    for token in range(vocabulary.size):
        tokens = torch.full((len(pairs),), token)
        expected = advance_rows(registry, state, tokens)
        assert torch.equal(advance_tensors(registry.tables, *state, tokens), expected)
    logits = torch.randn(len(pairs), vocabulary.size)
    assert torch.equal(
        mask_on_device(registry.layout_on(logits.device), state.positions, logits.clone()),
        mask_on_host(registry, state, logits.clone()),
    )


def test_three_thousand_texts_stay_small_on_a_real_vocabulary(tekken: Vocabulary) -> None:
    rng = random.Random(3)
    words = [t.strip() for t in tekken.tokens if t is not None and 4 <= len(t) <= 9 and t.strip().isalpha()]
    texts = [rng.choice(words) + rng.choice([b"", b" "]) + rng.choice(words) for _ in range(3000)]
    automaton = banning(texts, tekken)
    assert automaton.nbytes < 40 * 2**20
    # A random walk along legal tokens never spells one of them.
    state, text = automaton.start, b""
    for _ in range(300):
        legal = np.flatnonzero(automaton.per_token(automaton.legal_classes(state)))
        likely = [t for t in map(int, rng.sample(list(legal), 20)) if t not in tekken.eos_ids]
        state = automaton.next(state, likely[0])
        text += tekken.tokens[likely[0]] or b""
        assert state != DEAD
    assert not any(t in text for t in texts)


def test_more_texts_than_the_limit_are_refused() -> None:
    with pytest.raises(PatternTooLarge, match="more than 100 states"):
        Occurrences.of([bytes([a, b]) for a in range(20) for b in range(20)], Limits(states=100))


def test_equal_texts_count_as_the_first() -> None:
    assert set(np.unique(Occurrences.of([b"ab", b"ab"], DEFAULT_LIMITS).longest)) == {-1, 0}
