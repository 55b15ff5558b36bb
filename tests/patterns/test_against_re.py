"""Patterns of the whole dialect mean what they mean in `re`."""

from __future__ import annotations

import re
import warnings

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logitkit.patterns.parser import parse
from tests.patterns.strategies import patterns, texts_for
from tests.patterns.tree_matcher import fullmatch


def _agree(pattern: str, text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = re.fullmatch(pattern, text) is not None
    assert fullmatch(parse(pattern), text) == expected, (pattern, text)


@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_any_pattern(data: st.DataObject) -> None:
    pattern = data.draw(patterns())
    for _ in range(4):
        _agree(pattern, data.draw(texts_for(pattern)))
