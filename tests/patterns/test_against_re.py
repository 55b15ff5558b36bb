"""Patterns of the whole dialect mean what they mean in `re`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logitkit.patterns import parse
from tests.patterns.strategies import matches_in_re, patterns, texts_for
from tests.patterns.tree_matcher import fullmatch


def _agree(pattern: str, text: str) -> None:
    assert fullmatch(parse(pattern), text) == matches_in_re(pattern, text), (pattern, text)


@settings(max_examples=2000 if os.environ.get("CI") else 400, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_pattern(data: st.DataObject) -> None:
    pattern = data.draw(patterns())
    for _ in range(4):
        _agree(pattern, data.draw(texts_for(pattern)))
