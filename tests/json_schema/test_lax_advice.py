"""A refusal says what `lax=True` would leave out, if that helps and the caller has that option."""

from __future__ import annotations

import json
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import logitkit as lk
from logitkit import languages
from logitkit.errors import GrammarError, UnsupportedSchema
from tests.json_schema import refusals
from tests.json_schema.acceptance import BYTES
from tests.json_schema.official import Group, groups
from tests.json_schema.test_refusals import REFUSALS, Refusal

ADVICE = "lax=True would leave out "
UNIQUE = {"type": "array", "items": {"type": "object", "maxProperties": 2}, "uniqueItems": True}
OBJECT = {"type": "object", "properties": {"a": UNIQUE}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": OBJECT}}
TAG = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": UNIQUE}}


def _refused(schema: Any, **options: Any) -> UnsupportedSchema:
    with pytest.raises(UnsupportedSchema) as error:
        lk.JsonSchema(schema, BYTES, **options)
    return error.value


def _named(error: UnsupportedSchema) -> str:
    return f"{error.keyword!r} at {error.pointer}" if error.keyword else f"the schema at {error.pointer}"


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS.keys())
def test_it_is_the_end_of_the_message(refusal: Refusal) -> None:
    """That `lax=True` does so is tested beside these schemas."""
    error = _refused(refusal.schema)
    what = _named(error) if error.keyword else f"the negation of {_named(error)}"
    assert str(error).endswith(f"{ADVICE}{what}")
    assert str(error).count(ADVICE) == 1
    # A picture of a pattern has lines of its own.
    assert str(error).removesuffix(f"{ADVICE}{what}")[-2:] in ("; ", "^\n")


@pytest.mark.parametrize("group", [group for group in groups() if str(group) in refusals.refused()], ids=str)
def test_it_is_given_exactly_where_it_helps(group: Group) -> None:
    error = _refused(group.schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dropped = lk.JsonSchema(group.schema, BYTES, lax=True).automaton.dropped
        except UnsupportedSchema:
            dropped = ()
    helps = any(text.startswith(f"{_named(error)}: ") for text in dropped)
    assert (ADVICE in str(error)) == helps == bool(error.left_out_by_lax)


def test_none_is_given_where_no_keyword_is_to_blame() -> None:
    members = {f"m{i}": {"type": "string", "pattern": f"^[a-z]{{1,40}}{i}[0-9]{{40}}$"} for i in range(3000)}
    for schema in ({"properties": members}, {"enum": [f"w{i}" for i in range(200_001)]}, {"$schema": "mine"}):
        assert ADVICE not in str(_refused(schema))


def test_it_is_given_for_a_draft_to_come_and_a_strict_format() -> None:
    assert str(_refused({"$schema": "https://json-schema.org/v1"})).endswith(f"; {ADVICE}'$schema' at #")
    assert str(_refused({"format": "phone"}, strict_formats=True)).endswith(f"; {ADVICE}'format' at #")
    with pytest.raises(UnsupportedSchema, match=f"; {ADVICE}'uniqueItems' at #$"):
        languages.json_schema(UNIQUE).constraint(BYTES)
    with pytest.raises(UnsupportedSchema, match=f"; {ADVICE}'uniqueItems' at #$"):
        lk.from_config({"json_schema": UNIQUE}, BYTES)


@pytest.mark.parametrize(
    "made",
    [
        lambda: languages.xml_arguments(OBJECT).constraint(BYTES),
        lambda: lk.Tools([TOOL], format="hermes").constraint(BYTES),
        lambda: lk.StructuralTag(TAG, BYTES),
        lambda: lk.Grammar(f"start: %json {json.dumps(UNIQUE)}", BYTES, syntax="lark"),
    ],
    ids=["arguments", "tools", "a structural tag", "a grammar"],
)
def test_none_is_given_without_such_an_option(made: Callable[[], object]) -> None:
    with pytest.raises((UnsupportedSchema, GrammarError), match="whether they are different") as error:
        made()
    assert "lax" not in str(error.value)


def test_it_is_kept_by_pickle() -> None:
    error = _refused(UNIQUE)
    copied = pickle.loads(pickle.dumps(error))
    assert str(copied) == str(error)
    assert copied.args == error.args
