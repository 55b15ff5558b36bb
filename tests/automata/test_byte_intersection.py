"""Products of byte automata, text by text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.byte_dfa import ByteDfa
from logitkit.compiler.bytes.byte_intersection import intersect_bytes
from logitkit.compiler.bytes.concatenation import anything
from logitkit.compiler.bytes.occurrences import Occurrences
from logitkit.compiler.language import pattern_dfa
from logitkit.errors import PatternTooLarge
from logitkit.limits import DEFAULT_LIMITS, Limits
from tests.examples import examples

PARTS = st.sampled_from(["[abc]*", "(ab)*", "a{1,3}|b", "(a|b)*c", "c(ab?)*", "[^c]+"]) | st.lists(
    st.text("abc", min_size=1, max_size=3).map(str.encode), min_size=1, max_size=3
)


def dfa(part: str | list[bytes]) -> ByteDfa:
    if isinstance(part, list):
        return Occurrences.of(part, DEFAULT_LIMITS).without()
    return pattern_dfa(part, DEFAULT_LIMITS)


@settings(max_examples=examples(400))
@given(PARTS, PARTS, st.lists(st.text("abcd", max_size=8), max_size=6))
def test_what_both_accept(one: str | list[bytes], other: str | list[bytes], texts: list[str]) -> None:
    a, b = dfa(one), dfa(other)
    both = intersect_bytes(a, b, DEFAULT_LIMITS)
    for text in texts:
        assert both.accepts(text.encode()) == (a.accepts(text.encode()) and b.accepts(text.encode()))


def test_free_where_both_are() -> None:
    some = replace(anything(), free=np.zeros(3, bool))
    for a, b, expected in ((anything(), anything(), True), (anything(), some, False), (some, anything(), False)):
        both = intersect_bytes(a, b, DEFAULT_LIMITS)
        assert both.free is not None
        assert both.free[both.start] == expected


def test_limits() -> None:
    with pytest.raises(PatternTooLarge, match="more than 10 states"):
        intersect_bytes(dfa("a{20}"), dfa("[ab]*"), Limits(states=10))
