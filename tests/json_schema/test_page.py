"""The page on JSON Schema: the sizes that it names are possible."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import logitkit as lk

PAGE = Path(__file__).resolve().parents[2] / "docs" / "json-schema.md"


SIZES: dict[str, Any] = {
    "a string of any length": {"type": "string", "maxLength": 2**31},
    "a URI of any length": {"type": "string", "format": "uri", "maxLength": 10**6},
    "names of up to 4,000 characters": {"type": "object", "propertyNames": {"maxLength": 4000}},
    "`maxItems: 100000`": {"type": "array", "maxItems": 100_000},
}


@pytest.mark.parametrize("said", SIZES)
def test_what_it_says_fits(said: str, tekken: lk.Vocabulary) -> None:
    assert said in re.sub(r"\s+", " ", PAGE.read_text("utf-8"))
    assert lk.JsonSchema(SIZES[said], tekken).automaton.states > 10
