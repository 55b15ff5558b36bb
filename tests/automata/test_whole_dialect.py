"""The compiled language of patterns of the whole dialect, against `re.fullmatch`."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.language import pattern_dfa
from logitkit.errors import PatternSyntaxError, PatternTooLarge
from logitkit.limits import Limits
from tests.examples import examples
from tests.patterns.strategies import patterns, texts_for

LIMITS = Limits(states=5_000, work=200_000)

# Patterns whose language took care to get right, each with texts that tell a wrong one from the right one.
NAMED = [
    (r"\B", ["", "a"]),
    (r"\Ba|\B", ["", "a"]),
    (r"a$\n?", ["a", "a\n", "a\n\n"]),
    (r"(?m)^a$\n^b$", ["a\nb", "ab", "a\nb\n"]),
    (r"(?:(?=.*c)[abc])*c", ["c", "abc", "ab", "abcabc"]),
    (r"(?>a|ab)c", ["ac", "abc"]),
    (r"(?>ab|a)c", ["ac", "abc"]),
    (r"a*+a", ["a", "aa"]),
    (r"a{1,3}+a", ["aa", "aaa", "aaaa", "aaaaa"]),
    (r"(?:a|ab)++c", ["ac", "abc", "aabc"]),
    (r"(?>(a|b)*c)[abc]*", ["c", "abca", "abcc", "ab"]),
    (r"(?=(?=a)a.)ab|(?=[ab](?!c)).*", ["ab", "ac", "bd", "a"]),
    (r"(?<=(?<!a)b)c|bc", ["bc", "c"]),
    (r"(?<!(?=ab).)b?a", ["a", "ba"]),
    (r"[ab]*(?<=\ba)b*", ["ab", "aab", "abb", "b"]),
    (r"(?!.*aa)[ab ]*", ["ab a", "baab", ""]),
    (r"(?=.*a)(?=.*b)(?=.*c)[abc]{3}", ["abc", "cab", "aab"]),
    (r"x*(?<!\B)a", ["a", "xa", "xxa"]),
    (r"(\b\w+\b ?)+", ["ab cd", "ab  cd", "é ü"]),
]


@pytest.mark.parametrize(("pattern", "texts"), NAMED)
def test_named_patterns_agree_with_re(pattern: str, texts: list[str]) -> None:
    dfa = pattern_dfa(pattern, Limits())
    verdicts = {text: re.fullmatch(pattern, text) is not None for text in texts}
    assert {text: dfa.accepts(text.encode()) for text in texts} == verdicts


@settings(max_examples=examples(1500))
@given(st.data())
def test_generated_patterns_agree_with_re(data: st.DataObject) -> None:
    pattern = data.draw(patterns())
    try:
        dfa = pattern_dfa(pattern, LIMITS)
    except PatternTooLarge:
        return
    except PatternSyntaxError as error:
        # The one refusal on purpose within what re accepts and the strategy draws.
        if "atomic group" in str(error):
            return
        raise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        compiled = re.compile(pattern)
    for text in data.draw(st.lists(texts_for(pattern), min_size=4, max_size=12)):
        if not any("\ud800" <= c <= "\udfff" for c in text):
            assert dfa.accepts(text.encode()) == (compiled.fullmatch(text) is not None), (pattern, text)
