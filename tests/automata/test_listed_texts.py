"""Listed texts are the same sets as automata of these texts, and all texts but listed ones the same as their complements."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logitkit.budget import one_budget, spent
from logitkit.compiler.listed_texts import ListedTexts, UnlistedTexts
from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.string_set import StringSet
from logitkit.limits import DEFAULT_LIMITS, UNBOUNDED, Limits

LISTS = st.lists(st.text("abé😀\ud800", max_size=4), max_size=6)
PATTERNS = ("", "a*", "(?s).*", "[^a]{1,3}", "ab|é+", "[ab]{2}.?")
OPERATIONS: tuple[Callable[[Any, Any], Any], ...] = (operator.and_, operator.or_, operator.sub)


def others() -> st.SearchStrategy[tuple[TextLanguage, TextLanguage]]:
    """The same set as an automaton, and perhaps as a list."""
    automata = st.sampled_from(PATTERNS).map(lambda p: (TextLanguage.of_pattern(p, DEFAULT_LIMITS),) * 2)
    lists = LISTS.map(lambda t: (TextLanguage.of_texts(t, DEFAULT_LIMITS), ListedTexts(t, DEFAULT_LIMITS)))
    return automata | lists


@given(LISTS, others(), st.sampled_from(OPERATIONS), st.booleans())
def test_operations(texts: list[str], other: tuple[TextLanguage, TextLanguage], operation: Any, first: bool) -> None:
    automaton, listed = TextLanguage.of_texts(texts, DEFAULT_LIMITS), ListedTexts(texts, DEFAULT_LIMITS)
    expected = operation(automaton, other[0]) if first else operation(other[0], automaton)
    found = operation(listed, other[1]) if first else operation(other[1], listed)
    assert found.is_empty == expected.is_empty
    assert found.longest == expected.longest
    assert found.is_everything == expected.is_everything
    assert found.texts(50) == expected.texts(50)
    # The sets differ in no text.
    assert (found - expected).is_empty
    assert (expected - found).is_empty


@given(LISTS, st.integers(0, 3), st.none() | st.integers(0, 4), st.integers(0, 5))
def test_listing(texts: list[str], least: int, most: int | None, count: int) -> None:
    listed = ListedTexts(texts, DEFAULT_LIMITS)
    kept = sorted({t for t in texts if "\ud800" not in t})
    assert listed.texts(10) == kept
    assert [t for t in ("a", "", "ab", "\ud800") if listed.contains(t)] == [t for t in ("a", "", "ab") if t in kept]
    long_enough = [t for t in kept if least <= len(t) and (most is None or len(t) <= most)]
    assert listed.texts(count, least, most) == (long_enough if len(long_enough) <= count else None)
    strings = StringSet.of_values(texts, DEFAULT_LIMITS) & StringSet.of_length(least, most, DEFAULT_LIMITS)
    assert strings.values() == long_enough
    assert strings.is_empty == (not long_enough)
    assert strings.longest == max(map(len, long_enough), default=0)


def test_no_automaton_is_made_for_what_lists_can_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(TextLanguage, "of_texts")
    many = StringSet.of_values([f"item {i}" for i in range(2000)], Limits(states=1000))
    few = many & StringSet.matching("9{2}", many.limits) & StringSet.of_length(7, 7, many.limits)
    assert few.values() == ["item 99"]
    assert (few - many).is_empty
    assert len((many - few).values(2000) or []) == 1999


# All texts of up to three of these characters, of which the lists and patterns say something.
SAMPLES = ["".join(text) for length in range(4) for text in product("abé😀c", repeat=length)]


def sets() -> st.SearchStrategy[tuple[TextLanguage, frozenset[str]]]:
    """A set, with those of the samples that are in it: by Python's `re`, or by looking at the list."""
    automata = st.sampled_from(PATTERNS).map(
        lambda p: (TextLanguage.of_pattern(p, DEFAULT_LIMITS), frozenset([t for t in SAMPLES if re.fullmatch(p, t)]))
    )
    lists = LISTS.map(lambda texts: (ListedTexts(texts, DEFAULT_LIMITS), frozenset(texts).intersection(SAMPLES)))
    return automata | lists | lists.map(lambda pair: (~pair[0], frozenset(SAMPLES) - pair[1]))


@given(LISTS, st.lists(st.tuples(st.sampled_from(OPERATIONS), st.booleans(), sets()), max_size=4))
def test_all_but_listed_texts(texts: list[str], steps: list[Any]) -> None:
    found, expected = ~ListedTexts(texts, DEFAULT_LIMITS), frozenset(SAMPLES).difference(texts)
    for operation, first, (other, samples) in steps:
        found = operation(found, other) if first else operation(other, found)
        expected = operation(expected, samples) if first else operation(samples, expected)
    assert [text for text in SAMPLES if found.contains(text)] == [text for text in SAMPLES if text in expected]
    assert not found.contains("\ud800")
    # Its automaton holds the same, and knows the same of lengths.
    plain = TextLanguage(found.dfa, found.alphabet, DEFAULT_LIMITS)
    assert [text for text in SAMPLES if plain.contains(text)] == [text for text in SAMPLES if text in expected]
    assert (found.is_empty, found.is_everything) == (plain.is_empty, plain.is_everything)
    assert (found.longest, found.texts(20)) == (plain.longest, plain.texts(20))
    # A finite set has no such states, which a list knows without an automaton.
    assert found.listed is not None or found.countable == plain.countable
    strings, length = StringSet(found), StringSet.of_length(1, 2, DEFAULT_LIMITS)
    assert (strings & length).values() == (StringSet(plain) & length).values()


def test_no_automaton_is_made_of_all_texts_but_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(TextLanguage, "of_texts")
    left = TextLanguage.everything(DEFAULT_LIMITS)
    for number in range(300):
        left &= ~ListedTexts([f"item {number}"], UNBOUNDED)
    assert isinstance(left, UnlistedTexts)
    assert left.countable
    assert (ListedTexts(["item 3", "item 300"], UNBOUNDED) & left).texts(5) == ["item 300"]
    assert (TextLanguage.of_pattern("item .*", UNBOUNDED) - left).texts(300) == [*left.unlisted.listed]


def test_the_same_sets_are_combined_once_in_a_compilation() -> None:
    one, other = TextLanguage.of_pattern("[^a]{1,3}", UNBOUNDED), TextLanguage.of_pattern("ab|é+", UNBOUNDED)
    assert (one | other) is not (one | other)
    with one_budget(10**6):
        found, steps = one | other, spent()
        assert (one | other) is found
        assert (one - ListedTexts(["b"], UNBOUNDED)) is (one - ListedTexts(["b"], UNBOUNDED))
        assert (one & other) is not found
        assert 0 < steps < spent()
        assert (other | one) is not found
