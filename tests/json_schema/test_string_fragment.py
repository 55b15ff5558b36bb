"""Leaves hold the strings that `json.dumps` writes, for sets that Python's `re` tells."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.string_fragment import StringFragment
from logitkit.compiler.listed_texts import ListedTexts
from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.string_fragment import string_fragment
from logitkit.limits import DEFAULT_LIMITS
from tests.examples import examples

PATTERNS = [
    r"[\s\S]*",
    r"[\s\S]{0,3}",
    r"[a-z\n\t\"\\]+",
    r"[^\n\x1f]*",
    r"(é|\x00|\x1e|\U0001F600)*",
    r"a?[\x10-\x1f]b?",
    r"\\n",
]
LEAVES = {p: string_fragment(TextLanguage.of_pattern(p, DEFAULT_LIMITS)) for p in PATTERNS}


def ends(fragment: StringFragment, text: bytes) -> bool:
    """Whether a text leads to the end, and not before."""
    state = 2
    for byte in text:
        if state < 2:
            return False
        state = int(fragment.step[state, fragment.byte_class[byte]])
    return state == NestedStep.end(0)


@pytest.mark.parametrize("pattern", PATTERNS)
@settings(max_examples=examples(120), deadline=None)
@given(st.text(st.sampled_from('ab\n\t\x00\x10\x1e\x1f"\\é\U0001f600/n'), max_size=4))
@example("")
@example("\\n")
def test_it_holds_what_is_written(pattern: str, text: str) -> None:
    written = json.dumps(text, ensure_ascii=False)[1:].encode()
    assert ends(LEAVES[pattern], written) == (re.fullmatch(pattern, text) is not None)
    # Nothing that is spelled otherwise.
    escaped = "".join(f"\\u{ord(c):04x}" if ord(c) < 2**16 else c for c in text).encode() + b'"'
    assert ends(LEAVES[pattern], escaped) == (escaped == written and ends(LEAVES[pattern], written))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_each_state_is_of_use(pattern: str) -> None:
    fragment = LEAVES[pattern]
    end = NestedStep.end(0)
    alive, reached = {end}, {2}
    for _ in range(fragment.states):
        alive |= {s for s in range(2, fragment.states) if alive & set(fragment.step[s].tolist())}
        reached |= {t for s in reached if s != end for t in fragment.step[s].tolist() if t}
    assert alive == {*range(2, fragment.states), end}
    assert reached == alive


CHARACTERS = 'ab\n\t\x00\x10\x1e\x1f"\\é\u0301\U0001f600/n'


@settings(max_examples=examples(120), deadline=None)
@given(
    st.lists(st.text(st.sampled_from(CHARACTERS), max_size=4), min_size=1), st.lists(st.text(CHARACTERS, max_size=4))
)
@example([""], ["", "a"])
@example(["", "\n", "\\n"], ["n", "\\"])
def test_a_list_is_written_as_its_automaton_is(texts: list[str], others: list[str]) -> None:
    listed = string_fragment(ListedTexts(texts, DEFAULT_LIMITS))
    automaton = string_fragment(TextLanguage.of_texts(texts, DEFAULT_LIMITS))
    # Both are minimal.
    assert (listed.states, listed.marks) == (automaton.states, automaton.marks)
    for text in texts + others:
        written = json.dumps(text, ensure_ascii=False)[1:].encode()
        assert ends(listed, written) == ends(automaton, written) == (text in texts)
        spelled = "".join(f"\\u{ord(c):04x}" if ord(c) < 2**16 else c for c in text).encode() + b'"'
        assert ends(listed, spelled) == ends(automaton, spelled)


def test_no_text_has_no_fragment() -> None:
    for language in (ListedTexts([], DEFAULT_LIMITS), ListedTexts(["\ud800"], DEFAULT_LIMITS)):
        with pytest.raises(ValueError, match="no strings"):
            string_fragment(language)


def test_equal_sets_share_one() -> None:
    one, other = (TextLanguage.of_length(0, 40, DEFAULT_LIMITS) for _ in range(2))
    assert one is not other
    assert string_fragment(one) is string_fragment(other)
    assert string_fragment(one).key != string_fragment(TextLanguage.of_length(0, 41, DEFAULT_LIMITS)).key


@pytest.mark.parametrize("lengths", [(0, 3), (2, 40), (3, 3)])
def test_it_says_whether_it_holds_a_text_of_some_length(lengths: tuple[int, int]) -> None:
    fragment = string_fragment(TextLanguage.everything(DEFAULT_LIMITS), lengths)
    least, most = lengths
    for text in ["", "a", "é", "\n", "ab", "é\n", "abc", 'a\\"', "é" * 4, "x" * 40, "\x1f" * 41]:
        written = json.dumps(text, ensure_ascii=False).encode()[1:]
        assert fragment.holds(written) == (least <= len(text) <= most), text
        assert not fragment.holds(written[:-1])
        assert not fragment.holds(written + b'"')
