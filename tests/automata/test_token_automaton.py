"""Token automata against every token of real vocabularies, read byte by byte."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import DEAD, FINISHED, FIRST_STATE, ByteDfa
from logitkit.compiler.language import byte_dfa_of
from logitkit.compiler.tokens.compile import token_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns import parse
from logitkit.runtime.row_mask import RowMask
from logitkit.vocabulary import Vocabulary
from tests import vocabularies
from tests.automata.brute_force import targets_by_bytes, targets_by_table
from tests.patterns.strategies import patterns

VOCABULARIES = {"tekken": vocabularies.tekken, "sentencepiece_32k": vocabularies.sentencepiece_32k}

PATTERNS = {
    "first state loops": "[a-z]*",
    "two states in a cycle": "(ab)*",
    "all but one": r"[^\n]*",
    "list of digits": "[0-9](,[0-9])*",
    "character of two bytes": "é+",
    "date": r"\d{4}-\d{2}-\d{2}",
    "Unicode words": r"\w+( \w+)*",
    "capped text": ".{0,20}",
    "capped text with newlines": r"[\s\S]{1,40}",
    "e-mail": r"[\w.+-]+@[\w-]+\.[\w.-]+",
    "words": "yes|no|maybe|not at all|нет|はい",
    "leading space": " ?[A-Z][a-z]+",
    "anything": r"[\s\S]*",
    "contains a tag": r"[\s\S]*</think>[\s\S]*",
    "ends with a stop": r"[\s\S]*(?:STOP|\n\nUser:)",
    "JSON string": r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"',
    "four-byte characters": "[😀-😏]{2,}",
    "exponential tail": "(a|b)*a(a|b){6}",
    "markdown list": r"(- [^\n]{1,20}\n){1,4}",
    "not a digit": r"\D*",
    "blank lines": r"( |\n)*x",
}


@cache
def compiled(pattern: str, name: str) -> tuple[ByteDfa, TokenAutomaton]:
    dfa = byte_dfa_of(parse(pattern), DEFAULT_LIMITS)
    return dfa, token_automaton(dfa, VOCABULARIES[name](), DEFAULT_LIMITS, pattern)


def some_states(dfa: ByteDfa, count: int) -> list[int]:
    """Choose the start state and others spread over the whole automaton."""
    spread = np.linspace(FIRST_STATE, len(dfa.step) - 1, count).astype(int).tolist()
    return sorted({dfa.start, *spread})


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())
def test_every_token_in_several_states(pattern: str, name: str) -> None:
    dfa, automaton = compiled(pattern, name)
    vocabulary = VOCABULARIES[name]()
    generator = np.random.default_rng(1)
    for state in some_states(dfa, 6):
        expected = targets_by_bytes(dfa, vocabulary, state)
        assert np.array_equal(targets_by_table(automaton, state), expected)
        legal = np.flatnonzero(expected != DEAD)
        some = np.concatenate([legal[:100], generator.integers(0, vocabulary.size, 100)]).tolist()
        assert [automaton.next(state, t) for t in some] == expected[some].tolist()


@pytest.mark.parametrize("name", VOCABULARIES)
@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS.keys())
def test_masks_allow_exactly_the_tokens_that_stay_alive(pattern: str, name: str) -> None:
    dfa, automaton = compiled(pattern, name)
    vocabulary = VOCABULARIES[name]()
    logits = np.random.default_rng(2).standard_normal(vocabulary.size + 3).astype(np.float32)
    for state in some_states(dfa, 4):
        row = logits.copy()
        RowMask.of(automaton, state).apply(row, -np.inf, 0.0)
        legal = targets_by_bytes(dfa, vocabulary, state) != DEAD
        assert np.array_equal(row[:-3], np.where(legal, logits[:-3], -np.inf))
        assert np.all(row[-3:] == -np.inf)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_pattern(data: st.DataObject) -> None:
    pattern = data.draw(patterns(lookarounds=False, anchors=False, atomic=False, depth=2))
    vocabulary = VOCABULARIES[data.draw(st.sampled_from(sorted(VOCABULARIES)))]()
    limits = Limits(states=400, work=200_000)
    try:
        dfa = byte_dfa_of(parse(pattern), limits)
        if not dfa.accepting.any():
            reject()
        automaton = token_automaton(dfa, vocabulary, limits, pattern)
    except PatternTooLarge:
        reject()
    for state in {dfa.start, data.draw(st.integers(FIRST_STATE, len(dfa.step) - 1))}:
        assert np.array_equal(targets_by_table(automaton, state), targets_by_bytes(dfa, vocabulary, state))


def test_first_states_that_loop_have_every_token_of_the_loop(tekken: Vocabulary) -> None:
    dfa, automaton = compiled("[a-z]*", "tekken")
    assert dfa.start == automaton.start
    words = [i for i, t in enumerate(tekken.tokens) if t and t.isalpha() and t.islower() and t.isascii()]
    assert len(words) > 10_000
    assert {automaton.next(automaton.start, i) for i in words} == {automaton.start}


def test_a_list_may_go_on_or_end_after_its_first_digit(tekken: Vocabulary) -> None:
    _, automaton = compiled("[0-9](,[0-9])*", "tekken")
    ids = {t: i for i, t in enumerate(tekken.tokens) if t}
    assert automaton.next(automaton.start, tekken.eos_ids[0]) == DEAD
    assert automaton.next(automaton.start, ids[b","]) == DEAD
    digit = automaton.next(automaton.start, ids[b"7"])
    assert automaton.next(digit, ids[b","]) >= FIRST_STATE
    assert automaton.next(digit, tekken.eos_ids[0]) == FINISHED
    assert automaton.next(digit, ids[b"7"]) == DEAD


@pytest.mark.parametrize("name", VOCABULARIES)
def test_a_character_as_one_token_or_as_its_bytes(name: str) -> None:
    vocabulary = VOCABULARIES[name]()
    _, automaton = compiled("é+", name)
    ids = {t: i for i, t in enumerate(vocabulary.tokens) if t}
    start, eos = automaton.start, vocabulary.eos_ids[0]
    whole = automaton.next(start, ids["é".encode()])
    half = automaton.next(start, ids[b"\xc3"])
    assert automaton.next(whole, eos) == FINISHED
    assert half >= FIRST_STATE
    assert automaton.next(half, eos) == DEAD
    assert automaton.next(half, ids["é".encode()]) == DEAD
    assert automaton.next(half, ids[b"\xa9"]) == whole
    assert automaton.next(start, ids[b"\xa9"]) == DEAD


def test_ids_without_text_are_never_legal(tekken: Vocabulary) -> None:
    padded = Vocabulary(tekken.tokens, tekken.eos_ids, size=tekken.size + 64)
    dfa, _ = compiled(r"[\s\S]*", "tekken")
    automaton = token_automaton(dfa, padded, DEFAULT_LIMITS, "")
    without = np.array([t is None and i not in padded.eos_ids for i, t in enumerate(padded.tokens)])
    assert without.sum() == 1000 - 1 + 64
    targets = targets_by_table(automaton, automaton.start)
    assert not targets[without].any()
    assert np.array_equal(targets, targets_by_bytes(dfa, padded, dfa.start))


def test_each_of_two_tokens_with_equal_bytes_is_legal(sentencepiece_32k: Vocabulary) -> None:
    twins = [i for i, t in enumerate(sentencepiece_32k.tokens) if t == b"a"]
    assert len(twins) == 2
    dfa, automaton = compiled("[a-z]*", "sentencepiece_32k")
    assert [automaton.next(automaton.start, i) for i in twins] == [dfa.start] * 2


def test_after_eos_nothing_moves_and_no_token_leaves_death(tekken: Vocabulary) -> None:
    _, automaton = compiled("(ab)*", "tekken")
    for token in (-1, 2, 5, 5000, tekken.size - 1):
        assert automaton.next(FINISHED, token) == FINISHED
        assert automaton.next(DEAD, token) == DEAD
    assert automaton.next(automaton.start, -1) == automaton.start
    assert automaton.next(automaton.start, tekken.size) == DEAD
    assert automaton.next(automaton.start, -2) == DEAD


def test_automata_that_never_die_stay_small() -> None:
    stops = "|".join(f"stop{i}x{i * i}" for i in range(100))
    dfa = byte_dfa_of(parse(f"[\\s\\S]*(?:{stops})[\\s\\S]*"), DEFAULT_LIMITS)
    automaton = token_automaton(dfa, vocabularies.tekken(), DEFAULT_LIMITS, "")
    assert automaton.states > 250
    # Dense, the table would take four bytes for every pair of state and class.
    assert automaton.nbytes < automaton.states * automaton.classes
    assert np.array_equal(
        targets_by_table(automaton, dfa.start), targets_by_bytes(dfa, vocabularies.tekken(), dfa.start)
    )


def test_equal_automata_have_equal_keys_and_others_do_not(tekken: Vocabulary) -> None:
    def key(pattern: str) -> str:
        return token_automaton(byte_dfa_of(parse(pattern), DEFAULT_LIMITS), tekken, DEFAULT_LIMITS, "").content_key

    assert key("aa*") == key("a+")
    assert key("a+") != key("a*")
    assert key("a+") != key("b+")


@pytest.mark.parametrize("table", ["accepting", "default", "row_target", "layers"])
def test_automata_that_agree_in_what_is_hashed_may_differ(table: str, tekken: Vocabulary) -> None:
    def made(**changed: Any) -> TokenAutomaton:
        found = token_automaton(byte_dfa_of(parse("(yes|no|maybe)+"), DEFAULT_LIMITS), tekken, DEFAULT_LIMITS, "")
        return replace(found, **changed)

    # Only the first entries of the rows are hashed.
    with mock.patch("logitkit.compiler.tokens.tables.token_automaton.HASHED", 8):
        one = made(layers=(made(),))
        assert one.equals(made(layers=(made(),)))
        if table == "layers":
            other = made(layers=(made(accepting=~one.accepting),))
        else:
            last = getattr(one, table)[-1:]
            changed: dict[str, Any] = {table: np.append(getattr(one, table)[:-1], (last == 0).astype(last.dtype))}
            other = replace(one, **changed)
        assert one.sizes == other.sizes
        assert not one.equals(other)
        assert not other.equals(one)
