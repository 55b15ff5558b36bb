"""The texts that a backtracking search finds, against `re.match`."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.characters.first_match import finds_all, first_match_dfa, is_unambiguous
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns.parser import parse
from tests.examples import examples

TEXTS = ["".join(text) for length in range(6) for text in itertools.product("abc", repeat=length)]
QUANTIFIERS = ("?", "??", "{2}", "{1,2}", "{0,2}", "{0,2}?")
# Where a copy may be empty, `re` ends a loop in a way of its own.
LOOPS = ("*", "+", "*?", "+?", "{2,}")


def _more(inner: st.SearchStrategy[tuple[str, bool]]) -> st.SearchStrategy[tuple[str, bool]]:
    """Patterns of smaller ones, each with whether it may be empty."""
    options = st.lists(st.one_of(inner, inner, inner, st.just(("", True))), min_size=2, max_size=3)
    return st.one_of(
        st.tuples(inner, inner).map(lambda two: (two[0][0] + two[1][0], two[0][1] and two[1][1])),
        options.map(lambda some: (f"(?:{'|'.join(p for p, _ in some)})", any(empty for _, empty in some))),
        st.tuples(inner, st.sampled_from(QUANTIFIERS)).map(
            lambda one: (f"(?:{one[0][0]}){one[1]}", one[0][1] or not one[1].startswith(("{1", "{2")))
        ),
        st.tuples(inner.filter(lambda one: not one[1]), st.sampled_from(LOOPS)).map(
            lambda one: (f"(?:{one[0][0]}){one[1]}", one[1].startswith("*"))
        ),
    )


PATTERNS = st.recursive(
    st.sampled_from(("a", "a", "b", "b", "c", "[ab]", "[^a]", "ab")).map(lambda p: (p, False)), _more, max_leaves=8
).map(lambda one: one[0])


def _texts(language: TextLanguage) -> set[str]:
    return {text for text in TEXTS if language.contains(text)}


@settings(max_examples=examples(1600), deadline=None)
@given(PATTERNS)
def test_the_first_match_is_the_whole_text(pattern: str) -> None:
    tree, expression = parse(pattern), re.compile(pattern)
    expected = {text for text in TEXTS if (found := expression.match(text)) and found.end() == len(text)}
    assert _texts(TextLanguage(*first_match_dfa(tree, DEFAULT_LIMITS), DEFAULT_LIMITS)) == expected
    if finds_all(tree) or is_unambiguous(tree, DEFAULT_LIMITS):
        assert expected == {text for text in TEXTS if expression.fullmatch(text)}


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[a-z_][a-z0-9_]*", True),
        (r'"([^"\\]|\\.)*"', True),
        (r"[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?", True),
        ("1[0-2]|[1-9]|JAN|FEB|JUN", True),
        ("[1-5]?[0-9]", True),
        ("a|ab", False),
        ("a+?", False),
        ("(a|ab)(c|bcd)", False),
        ("(|a)b?", False),
    ],
)
def test_the_form_shows_whether_a_search_finds_all(pattern: str, expected: bool) -> None:
    assert finds_all(parse(pattern)) is expected


def test_a_large_search_is_refused() -> None:
    with pytest.raises(PatternTooLarge):
        first_match_dfa(parse("(a|b)*a(a|b){40}"), Limits(work=100_000))
    with pytest.raises(PatternTooLarge):
        first_match_dfa(parse("(a|ab){60000}"), DEFAULT_LIMITS)
