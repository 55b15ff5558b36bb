"""A schema is compiled once: how its parts are written is decided before, or only where they begin like other text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any
from unittest import mock

import pytest

import logitkit as lk
from logitkit.compiler.nested_grammars.dfa import nested_grammar_dfa
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.compile import schema_grammar
from logitkit.json_schema.document import load
from logitkit.json_schema.parts import Trimmed
from logitkit.json_schema.together import parts_together
from logitkit.languages import either, json_schema, regex
from tests.json_schema.acceptance import BYTES
from tests.json_schema.corpus import Case, cases
from tests.json_schema.test_corpus_accepted import REFUSED

# A vocabulary that lacks the bytes of characters beyond ASCII.
ASCII = lk.Vocabulary([*(bytes([byte]) for byte in range(128)), b"ab", None], eos_ids=[129])

_fresh = count(1)


def limits() -> lk.Limits:
    """Return limits that were never given, so that nothing compiled before is found."""
    return lk.Limits(states=400_000 + next(_fresh), work=20_000_000)


@pytest.fixture
def compilations() -> Iterator[mock.Mock]:
    """Count the nested grammars that constraints compile."""
    counted = mock.Mock(wraps=nested_grammar_dfa)
    with (
        mock.patch("logitkit.constraints.json_schema.nested_grammar_dfa", counted),
        mock.patch("logitkit.languages.constraint.nested_grammar_dfa", counted),
    ):
        yield counted


@pytest.mark.parametrize("case", cases(), ids=str)
def test_each_schema_is_compiled_once(case: Case, compilations: mock.Mock) -> None:
    if case.name in REFUSED:
        with pytest.raises(UnsupportedSchema):
            lk.JsonSchema(case.schema, BYTES, limits=limits())
        return
    lk.JsonSchema(case.schema, BYTES, limits=limits())
    assert compilations.call_count == 1
    json_schema(case.schema).constraint(BYTES, limits=limits())
    assert compilations.call_count == 2


LONG = {"type": "string", "maxLength": 100}
MANY = {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(80)}}


@pytest.mark.parametrize("schema", [LONG, MANY])
def test_a_vocabulary_without_some_bytes_needs_no_second_attempt(schema: Any, compilations: mock.Mock) -> None:
    constraint = lk.JsonSchema(schema, ASCII, limits=limits())
    assert compilations.call_count == 1
    assert constraint.automaton.counting is None
    assert not constraint.nested_dfa().shares
    # A string of letters alone has tokens for all of its bytes.
    letters = lk.JsonSchema({**LONG, "pattern": "^[a-z]*$"}, ASCII, limits=limits())
    assert letters.automaton.counting is not None


def test_a_language_is_compiled_once(compilations: mock.Mock) -> None:
    """A string, an object and a block of items that other text begins like."""
    items = {"type": "array", "items": {"type": "integer"}, "maxItems": 1000}
    texts = {r'"[a-z]*"!': LONG, r"\{[^!]*!": {**MANY, "additionalProperties": False}, r"[\[\]0-9,]*!": items}
    for pattern, schema in texts.items():
        constraint = either(regex(pattern), json_schema(schema)).constraint(BYTES, limits=limits())
        for text, kind in (('"a"!', "string"), ('{"p1":"x"}!', "object"), ("[1,2]!", "array")):
            assert constraint.matches(text) == constraint.matches(text[:-1]) == (schema["type"] == kind)
        assert constraint.matches(f"[{'1,' * 999}1]") == (schema is items)
        assert not constraint.matches(f"[{'1,' * 1000}1]")
        assert constraint.matches(f"[{'1,' * 1000}1]!") == (schema is items)
    assert compilations.call_count == len(texts)


def together(schema: Any) -> dict[int, bool]:
    """Return how many parts of a schema begin together in each place, and whether they are items."""
    found: dict[int, bool] = {}
    with mock.patch("logitkit.json_schema.writer.parts_together") as search:

        def noted(roots: Any, trimmed: Trimmed) -> Any:
            sets = parts_together(roots, trimmed)
            found.update({len(keys): are_items for keys, are_items in sets.items()})
            return sets

        search.side_effect = noted
        schema_grammar(load(schema), limits())
    return found


def needs(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


CLOSED = {"type": "object", "properties": {"b": {"type": "null"}}, "additionalProperties": False}


def test_parts_that_begin_together() -> None:
    either_value = {"anyOf": [needs(a={}), needs(a=CLOSED)]}
    assert together(either_value) == {2: False}
    assert together({"anyOf": [needs(a={}), needs(b=CLOSED)]}) == {2: False}
    closed = [{**needs(**{name: CLOSED}), "additionalProperties": False} for name in "ab"]
    listed = {"type": "object", "properties": {"a": CLOSED}, "additionalProperties": {}}
    assert (
        together({"anyOf": [listed, {"type": "object", "properties": {"b": {}}, "additionalProperties": False}]}) == {}
    )
    assert together({"anyOf": [*closed, needs(c={}) | {"additionalProperties": False}]}) == {}
    items = {"type": "array", "contains": CLOSED, "minContains": 2}
    assert together({"anyOf": [items, needs(x={})]}) == {2: True}
