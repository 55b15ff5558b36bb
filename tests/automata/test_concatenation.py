"""Byte automata after one another: against `re` and a plain search for the marker."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import DEAD, FIRST_STATE, ByteDfa
from logitkit.compiler.bytes.concatenation import WaysRead, after_text, anything, trimmed, until_marker
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.compiler.language import pattern_dfa
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.vocabulary.text_with_names import Name, TextWithNames
from tests.examples import examples

PATTERNS = ["[abc]*", "(ab)*", "a{1,3}|b", "(a|b)*c", "", "c(ab?)*", "[^c]+"]
MARKERS = st.text("ab", min_size=1, max_size=5) | st.sampled_from(["aab", "abab", "c"])
TEXTS = st.text("abc", max_size=14)


def dfa(pattern: str) -> ByteDfa:
    return pattern_dfa(pattern, DEFAULT_LIMITS)


@settings(max_examples=examples(500))
@given(st.sampled_from(PATTERNS), MARKERS, st.sampled_from(PATTERNS), TEXTS, TEXTS)
def test_the_first_marker_divides_the_text(first: str, marker: str, second: str, a: str, b: str) -> None:
    both = until_marker(dfa(first), TextWithNames(marker.encode()), dfa(second), DEFAULT_LIMITS)
    for text in (a, f"{a}{marker}{b}", f"{a}{marker}{a}"):
        before, found, behind = text.partition(marker)
        expected = found and re.fullmatch(first, before) and re.fullmatch(second, behind)
        assert both.accepts(text.encode()) == bool(expected)


@settings(max_examples=examples(300))
@given(MARKERS, st.sampled_from(PATTERNS), TEXTS)
def test_anything_until_a_marker(marker: str, second: str, text: str) -> None:
    both = until_marker(anything(), TextWithNames(marker.encode()), dfa(second), DEFAULT_LIMITS)
    _, found, behind = text.partition(marker)
    assert both.accepts(text.encode()) == bool(found and re.fullmatch(second, behind))
    assert both.accepts(b"\xff" + text.encode()) == both.accepts(text.encode())


@settings(max_examples=examples(300))
@given(st.text("abc", max_size=4), st.sampled_from(PATTERNS), TEXTS)
def test_a_text_and_what_follows(text: str, rest: str, other: str) -> None:
    both = after_text(text.encode(), dfa(rest), DEFAULT_LIMITS)
    for candidate in (other, text + other):
        expected = candidate.startswith(text) and re.fullmatch(rest, candidate[len(text) :])
        assert both.accepts(candidate.encode()) == bool(expected)


@settings(max_examples=examples(200))
@given(st.sampled_from(PATTERNS), MARKERS, st.sampled_from(PATTERNS))
def test_all_states_lead_to_an_end(first: str, marker: str, second: str) -> None:
    both = until_marker(dfa(first), TextWithNames(marker.encode()), dfa(second), DEFAULT_LIMITS)
    alive = both.accepting.copy()
    for _ in range(len(alive)):
        alive |= alive[both.step].any(1)
    assert alive[FIRST_STATE:].all() or not both.accepting.any()
    assert not alive[:FIRST_STATE].any()


def test_what_is_free_stays_free() -> None:
    both = until_marker(anything(), TextWithNames(b"ab"), dfa("c"), DEFAULT_LIMITS)
    assert both.free is not None
    assert [bool(both.free[both.run(t)]) for t in (b"", b"xa", b"ab", b"abc")] == [True, True, False, False]
    both = after_text(b"ab", anything(), DEFAULT_LIMITS)
    assert both.free is not None
    assert [bool(both.free[both.run(t)]) for t in (b"", b"a", b"ab", b"abc")] == [False, False, True, True]


def test_automata_with_fallbacks_take_part() -> None:
    bans = Occurrences.of([b"abc", b"bb"], DEFAULT_LIMITS).without()
    both = until_marker(bans, TextWithNames(b"c"), bans, DEFAULT_LIMITS)
    assert both.fallback is None
    for text, expected in (("abc", True), ("bbc", False), ("acabc", False), ("acab", True), ("ab", False)):
        assert both.accepts(text.encode()) == expected


def test_a_marker_that_cannot_come_leaves_nothing() -> None:
    impossible = until_marker(dfa("x"), TextWithNames(b"x"), dfa("y"), DEFAULT_LIMITS)
    assert not impossible.accepts(b"xxy")
    empty = until_marker(dfa("a{5}b"), TextWithNames(b"aa"), dfa("y"), DEFAULT_LIMITS)
    assert not empty.accepting.any()
    assert empty.start >= FIRST_STATE
    assert empty.step[empty.start].tolist() == [DEAD]


def test_limits() -> None:
    with pytest.raises(PatternTooLarge, match="more than 20 states"):
        after_text(b"x" * 20, anything(), Limits(states=20))
    with pytest.raises(PatternTooLarge, match="more than 20 states"):
        until_marker(anything(), TextWithNames(b"x" * 30), anything(), Limits(states=20))
    with pytest.raises(PatternTooLarge, match="more than 100 steps"):
        until_marker(anything(), TextWithNames(b"abcdefghijklmnop" * 2), anything(), Limits(work=100))
    assert np.array_equal(trimmed(anything(), DEFAULT_LIMITS).step, anything().step)


@settings(max_examples=examples(200))
@given(MARKERS.filter(lambda text: len(text) > 1), st.integers(0, 4), st.integers(1, 3))
def test_what_is_dropped_and_what_is_left_are_all_that_was_read(text: str, begin: int, length: int) -> None:
    marker = text.encode() * 5
    names = (Name(begin, begin + length, (7,)),)
    tree = WaysRead.of(TextWithNames(marker, names).ways(), DEFAULT_LIMITS)
    read: list[tuple[int, ...]] = [()]
    for node in range(1, tree.last + 1):
        read.append((*read[tree.parent[node]], tree.symbol[node]))
    for node in tree.open:
        for symbol, reached in tree.moves[node].items():
            assert (*read[tree.dropped(node, reached)], *read[reached]) == (*read[node], symbol)
