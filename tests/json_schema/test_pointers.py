r"""Pointers lead to a name and print in one line, whatever the name is."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import LogitkitError
from logitkit.json_schema.pointer import below, names_of, plain, step
from tests.json_schema.acceptance import BYTES

NAME = "a/b\nc\x1b\u2028~%"
WRITTEN = "a~1b%0Ac%1B%E2%80%A8~0%25"
WRONG = {
    "a type": {"type": "text"},
    "a bound": {"minimum": "1"},
    "no schema": 3,
    "a reference": {"$ref": "#/$defs/x"},
    "items": {"type": "array", "items": {"type": "object", "maxProperties": 2}, "uniqueItems": True},
    "a format": {"type": "string", "format": "phone"},
    "a keyword": {"maxLenght": 1},
}


@given(st.lists(st.text()))
def test_a_pointer_leads_to_each_name(names: list[str]) -> None:
    fragment = below("#", *names)
    assert fragment.isprintable()
    assert names_of(fragment) == names
    path = ""
    for name in names:
        path = step(path, name)
    assert plain(fragment) == path


def test_half_of_a_surrogate_pair_prints() -> None:
    assert below("#", "\ud83c") == "#/%ED%A0%BC"


@pytest.mark.parametrize("lax", [False, True])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("keyword", ["properties", "patternProperties"])
def test_what_is_said_of_a_schema_is_one_line(keyword: str, wrong: Any, lax: bool) -> None:
    said: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said += lk.JsonSchema({keyword: {NAME: wrong}}, BYTES, lax=lax).ignored
        except LogitkitError as error:
            said.append(str(error))
    said += [str(warning.message) for warning in caught]
    assert said
    assert all(text.isprintable() and f"#/{keyword}/{WRITTEN}" in text for text in said)
