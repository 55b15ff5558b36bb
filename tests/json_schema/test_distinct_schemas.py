"""Annotations change nothing, and schemas that differ in them alone are read once."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.document import load
from logitkit.json_schema.keywords import OF_LIST, OF_NAMES, OF_ONE
from logitkit.json_schema.schema_places import DistinctSchemas
from tests.automata.linked import SMALL
from tests.examples import examples
from tests.json_schema.generated import schemas


def annotated(schema: Any, rng: random.Random) -> Any:
    """Return a schema with annotations in it and in all that it holds."""
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in OF_NAMES and isinstance(value, dict):
            found[keyword] = {name: annotated(inside, rng) for name, inside in value.items()}
        elif keyword in OF_LIST and isinstance(value, list):
            found[keyword] = [annotated(inside, rng) for inside in value]
        else:
            found[keyword] = annotated(value, rng) if keyword in OF_ONE else value
        if rng.random() < 0.5:
            found["description"] = str(rng.random())
    return {"title": str(rng.random()), **found, "default": [rng.random()]}


def compiled(schema: Any) -> str:
    try:
        return lk.JsonSchema(schema, SMALL).automaton.content_key
    except (ConfigurationError, UnsupportedSchema) as error:
        return type(error).__name__


@settings(max_examples=examples(60), deadline=None)
@given(schemas, st.randoms(use_true_random=False))
def test_annotations_change_nothing(schema: Any, rng: random.Random) -> None:
    assert compiled(annotated(schema, rng)) == compiled(schema)


def test_schemas_that_differ_in_annotations_alone_are_read_once() -> None:
    one, other = ({"items": {"format": "phone", "title": title}} for title in "ab")
    schema = {"properties": {"a": one, "b": {"description": "the same", **other}}, "$defs": {"c": {"$ref": "#"}}}
    assert len(lk.JsonSchema(schema, SMALL).ignored) == 1


def test_names_and_constants_are_told_apart() -> None:
    names = [{"properties": {name: True}} for name in ("title", "default", "x")]
    values: list[Any] = [1, 1.0, True, "1", []]
    constants = [{"const": value} for value in (*values, *({"title": value} for value in values))]
    loaded = load({"anyOf": [*names, *constants]})
    assert isinstance(loaded, dict)
    schemas = DistinctSchemas()
    numbers = {schemas.number(schema) for schema in loaded["anyOf"]}
    assert len(numbers) == len(loaded["anyOf"])


def test_schemas_that_are_nested_deeply_are_numbered_too() -> None:
    schema: dict[str, Any] = {}
    for _ in range(250):
        schema = {"not": schema}
    schemas = DistinctSchemas()
    assert schemas.number(schema) == schemas.number(schema)
