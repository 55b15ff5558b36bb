"""`Choice`: exactly the given texts, in any tokenisation."""

from __future__ import annotations

import time

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternTooLarge, VocabularyError
from tests.examples import examples
from tests.processors.four_logits import NEVER, after

# Ids:                      0     1     2      3 = EOS
AB = lk.Vocabulary([b"a", b"b", b"ab", None], eos_ids=[3])
LOGITS = [0.5, -1.0, 2.0, 3.0]


def test_only_tokens_that_begin_an_option() -> None:
    assert after(lk.Choice(["ab", "abb"], AB), [], LOGITS) == [0.5, NEVER, 2.0, NEVER]
    assert after(lk.Choice(["b"], AB), [], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_where_one_option_begins_another_eos_decides() -> None:
    choice = lk.Choice(["a", "ab"], AB)
    assert after(choice, [0], LOGITS) == [NEVER, -1.0, NEVER, 3.0]
    assert after(choice, [2], LOGITS) == [NEVER, NEVER, NEVER, 3.0]


def test_the_empty_option() -> None:
    assert after(lk.Choice(["", "b"], AB), [], LOGITS) == [NEVER, -1.0, NEVER, 3.0]
    assert after(lk.Choice([""], AB), [], LOGITS) == [NEVER, NEVER, NEVER, 3.0]


def test_after_eos_only_eos_and_a_dead_row_ends() -> None:
    assert after(lk.Choice(["a", "b"], AB), [0, 3], LOGITS) == [NEVER, NEVER, NEVER, 3.0]
    assert after(lk.Choice(["a"], AB), [1], LOGITS) == [NEVER, NEVER, NEVER, 0.0]


def test_options_of_bytes_need_not_be_characters() -> None:
    raw = lk.Vocabulary([b"\xff", b"\xc3", b"\xa9", None], eos_ids=[3])
    assert after(lk.Choice([b"\xff\xc3", "é"], raw), [], LOGITS) == [0.5, -1.0, NEVER, NEVER]
    assert after(lk.Choice([b"\xff\xc3", "é"], raw), [0], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_options_are_texts_and_not_patterns() -> None:
    dots = lk.Vocabulary([b"a", b".", b"*", None], eos_ids=[3])
    assert after(lk.Choice([".*"], dots), [], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


def test_an_option_given_twice_counts_once() -> None:
    assert lk.Choice(["a", "b", "a"], AB).automaton is lk.Choice(["a", "b"], AB).automaton


def test_an_option_that_the_tokens_cannot_spell_is_never_begun() -> None:
    assert after(lk.Choice(["ac", "b"], AB), [], LOGITS) == [NEVER, -1.0, NEVER, NEVER]


SPLIT = lk.Vocabulary([b"a", b"b", b"ab", b"ba", b"aab", "é".encode(), b"\xc3", b"\xa9", None], eos_ids=[8])


@settings(max_examples=examples(300), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.text("abé", max_size=4), min_size=1, max_size=6))
def test_the_texts_that_can_be_generated_are_the_options(options: list[str]) -> None:
    automaton = lk.Choice(options, SPLIT).automaton
    found: set[bytes] = set()
    walks: list[tuple[int, ...]] = [()]
    while walks:
        walk = walks.pop()
        state = automaton.start
        for token in walk:
            state = automaton.next(state, token)
        if automaton.accepting[state]:
            found.add(SPLIT.decode(walk))
        legal = [t for t in range(8) if automaton.next(state, t) > 1]
        assert legal or automaton.accepting[state]
        walks += [(*walk, t) for t in legal]
    assert found == {o.encode() for o in options}


def test_every_tokenisation_of_an_option_is_legal() -> None:
    automaton = lk.Choice(["aabéa"], SPLIT).automaton
    text = "aabéa".encode()
    ways = 0
    walks = [(0, automaton.start)]
    while walks:
        at, state = walks.pop()
        ways += at == len(text)
        assert (at == len(text)) == bool(automaton.accepting[state])
        for token, spelled in enumerate(SPLIT.tokens):
            if spelled and text.startswith(spelled, at):
                assert automaton.next(state, token) > 1
                walks.append((at + len(spelled), automaton.next(state, token)))
    assert ways == 6


def test_twenty_thousand_options(tekken: lk.Vocabulary) -> None:
    options = [f"{a} {b}" for a in range(200) for b in ("Straße", "road", *(f"lane {i}" for i in range(98)))]
    begin = time.process_time()
    choice = lk.Choice(options, tekken)
    assert time.process_time() - begin < 5
    automaton = choice.automaton
    ids = {t: i for i, t in enumerate(tekken.tokens) if t}
    for option in [*options[::997], "19 Straße"]:
        state = automaton.start
        for byte in option.encode():
            state = automaton.next(state, ids[bytes([byte])])
        assert automaton.accepting[state]
        assert automaton.next(state, tekken.eos_ids[0]) == 1
    assert automaton.next(automaton.start, ids[b"x"]) == 0


def test_options_that_are_not_texts() -> None:
    with pytest.raises(ConfigurationError, match="options is the single text 'yes'; give a list of texts"):
        lk.Choice("yes", AB)
    with pytest.raises(ConfigurationError, match="options is empty; give at least one text"):
        lk.Choice([], AB)
    with pytest.raises(ConfigurationError, match=r"options\[1\] is 3 of type int; allowed are str and bytes"):
        lk.Choice(["a", 3], AB)  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match=r"options\[0\] has a lone surrogate at position 1"):
        lk.Choice(["a\ud800"], AB)


def test_options_that_the_tokens_cannot_spell() -> None:
    with pytest.raises(ConfigurationError, match="the tokens of the vocabulary spell no text that the choice matches"):
        lk.Choice(["c", "d"], AB)


def test_too_many_options_for_the_limits() -> None:
    with pytest.raises(PatternTooLarge, match=r"more than 8 states; .* pass limits=Limits\(states=\.\.\.\)"):
        lk.Choice(["abababababab"], AB, limits=lk.Limits(states=8))


def test_a_vocabulary_without_eos() -> None:
    with pytest.raises(VocabularyError, match="no EOS id"):
        lk.Choice(["a"], lk.Vocabulary([b"a"], eos_ids=[]))


def test_choices_are_equal_by_what_they_allow_and_where() -> None:
    assert lk.Choice(["a", "b"], AB) == lk.Choice(("a", "b"), AB)
    assert lk.Choice(["a"], AB) != lk.Choice(["b"], AB)
    assert after(lk.Choice(["a"], AB), [], [torch.inf, torch.inf, 0.0, 0.0]) == [
        torch.inf,
        NEVER,
        NEVER,
        NEVER,
    ]


def test_options_that_are_not_a_list() -> None:
    with pytest.raises(ConfigurationError, match="options is None; give a list of texts"):
        lk.Choice(None, AB)  # type: ignore[arg-type]


def test_limits_of_another_type() -> None:
    with pytest.raises(ConfigurationError, match=r"limits is 8; give logitkit\.Limits"):
        lk.Choice(["a"], AB, limits=8)  # type: ignore[arg-type]
