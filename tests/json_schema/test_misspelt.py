"""Keys that resemble a keyword warn; extensions, annotations and names of members do not."""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import logitkit as lk
from logitkit.json_schema.document import load
from logitkit.json_schema.misspelt import misspelt
from tests.json_schema.acceptance import BYTES
from tests.json_schema.corpus import cases
from tests.json_schema.official import groups


@pytest.mark.parametrize(
    ("key", "meant", "value"),
    [
        ("propertys", "properties", {}),
        ("properites", "properties", {"a": True}),
        ("additonalProperties", "additionalProperties", False),
        ("additional_properties", "additionalProperties", False),
        ("additionalproperties", "additionalProperties", False),
        ("requred", "required", ["a"]),
        ("require", "required", ["a"]),
        ("item", "items", {}),
        ("OneOf", "oneOf", [True]),
        ("any-of", "anyOf", [True]),
        ("enums", "enum", [1]),
        ("minLenght", "minLength", 3),
        ("max_length", "maxLength", 3),
        ("mininum", "minimum", 3.5),
        ("exclusiveMinimun", "exclusiveMinimum", True),
        ("pettern", "pattern", "a"),
        ("formate", "format", "date"),
        ("uniqueItem", "uniqueItems", True),
        ("patternPropertes", "patternProperties", {}),
        ("dependantRequired", "dependentRequired", {}),
        ("unevaluatedPropertys", "unevaluatedProperties", False),
        ("$reff", "$ref", "#"),
        ("required ", "required", ["a"]),
        (" properties", "properties", {"a": True}),
        ("nulable", "nullable", True),
        ("Nullable", "nullable", True),
    ],
)
def test_it_is_named(key: str, meant: str, value: Any) -> None:
    wanted = f"{key!r} at #/items/anyOf/1 is not a keyword; it resembles {meant!r}"
    schema = {"items": {"anyOf": [{"type": "null"}, {"type": "integer", key: value}]}}
    with pytest.warns(UserWarning, match="JsonSchema ignores unknown keywords: ") as warned:
        found = lk.JsonSchema(schema, BYTES)
    assert [str(warning.message).split(": ", 1)[1] for warning in warned] == [wanted]
    assert warned[0].filename == __file__
    # The library `jsonschema` ignores it too.
    assert jsonschema.Draft202012Validator(schema).is_valid([12, None])
    assert found.nested_dfa().accepts(b"[12,null]")


QUIET: list[dict[str, Any]] = [
    {"x-propertys": {}, "title_": "a", "type_": "string", "_type": "string", "$type": "string", "@type": "string"},
    {"example": 1, "nullable": True, "discriminator": {"propertyName": "a"}, "xml": {}, "externalDocs": {}},
    {"enumNames": ["a"], "propertyOrder": 3, "id": "a", "links": [], "additionalItems": False, "requires": "a"},
    {"extends": {}, "disallow": "string", "divisibleBy": 2, "optional": True, "options": {}, "unique": True},
    {"note": "a", "notes": ["a"], "cost": 1, "constraints": {}, "itemType": "a", "definition": "a", "range": [1, 2]},
    {"formatMinimum": "a", "min": 1, "max": 2, "length": 3, "pattern_": "a", "patterns": ["a"], "": 1, "-": 2},
    # A keyword and another word.
    {"requiredBy": ["a"], "required_by": ["a"], "typeName": "a", "enumOf": [1], "items-of": {}, "allOfThem": [True]},
    # The keyword is there, so the other key is something else.
    {"type": "string", "types": ["a"], "format": "date", "formats": "date"},
    # The keyword cannot have such a value.
    {"item": "a", "requird": True, "minLenght": "long", "propertis": ["a"], "nott": "a"},
    {"properties": {"propertys": True, "item": {"type": "string"}}, "required": ["propertys"]},
    {"patternProperties": {"item": True}, "$defs": {"enums": True}, "dependentSchemas": {"require": True}},
    {"enum": [{"propertys": {}}], "const": {"item": {}}, "default": {"requred": ["a"]}, "examples": [{"enums": [1]}]},
    {"x-any": {"propertys": {}}},
]


@pytest.mark.parametrize(
    "beside", [{"allOf": [{"type": "string"}]}, {"$ref": "#"}, {"enum": [1]}, {"type": ["string", "array"]}], ids=str
)
def test_nullable_that_says_nothing_is_named(beside: dict[str, Any]) -> None:
    assert misspelt({"properties": {"a": {**beside, "nullable": True}}}) == (
        "'nullable' at #/properties/a says nothing, as it counts only beside a single 'type'; allow null with 'anyOf'"
    )
    assert misspelt({"properties": {"a": {**beside, "nullable": False}}}) is None
    assert misspelt({"properties": {"a": {**beside, "type": "string", "nullable": True}}}) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"], "nullable": True},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "nullable": True},
        {"oneOf": [{"type": "string", "nullable": True}, False], "nullable": True},
        {"allOf": [{"enum": ["a", None]}, {}], "nullable": True},
        {"const": None, "nullable": True},
        {"type": 5, "enum": 5, "allOf": 5, "nullable": False},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": ["string"], "nullable": True},
    ],
    ids=str,
)
def test_nullable_where_null_is_allowed_is_not_named(schema: Any) -> None:
    assert misspelt(schema) is None


@pytest.mark.parametrize("beside", [{"const": 1}, {"oneOf": [{"type": "string"}]}, {"anyOf": [{"$ref": "#"}]}], ids=str)
def test_nullable_where_null_is_refused_is_named(beside: Any) -> None:
    assert "'nullable' at #" in str(misspelt({**beside, "nullable": True}))


def test_two_exchanged_letters_are_alike() -> None:
    assert misspelt({"tpye": "integer"}) == "'tpye' at # is not a keyword; it resembles 'type'"


@pytest.mark.parametrize("schema", QUIET)
def test_it_is_quiet(schema: dict[str, Any]) -> None:
    assert misspelt(load({"anyOf": [schema]})) is None


def test_it_is_quiet_on_the_schemas_of_the_tests() -> None:
    for schema in [*(case.schema for case in cases()), *(group.schema for group in groups())]:
        assert misspelt(load(schema)) is None, schema


def test_it_is_quiet_on_published_schemas() -> None:
    published = Path(__file__).parents[2] / "docs" / "config.schema.json"
    assert misspelt(load(json.loads(published.read_text("utf-8")))) is None
    for validator in (jsonschema.Draft3Validator, jsonschema.Draft4Validator, jsonschema.Draft202012Validator):
        assert misspelt(load(validator.META_SCHEMA)) is None


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"name": "p", "schema": {"type": "object"}, "strict": True}, "the schema may be what 'schema' holds"),
        ({"name": "f", "description": "D", "input_schema": {}}, "the schema may be what 'input_schema' holds"),
        ({"a": {"type": "integer"}, "b": {"type": "string"}}, "the names of members belong into 'properties'"),
        ({"name": "Emma", "age": 3}, "none of 'name', 'age' is a keyword, so any JSON value is allowed"),
    ],
)
def test_a_schema_without_keywords_is_named(schema: dict[str, Any], said: str) -> None:
    assert said in (misspelt(load(schema)) or "")
    with pytest.warns(UserWarning, match=said):
        assert lk.JsonSchema(schema, BYTES).matches("[]")


@pytest.mark.parametrize(
    "schema", [{}, {"title": "any"}, {"$id": "a:b", "x": 1}, {"properties": {}, "name": "p"}, True]
)
def test_a_schema_that_allows_anything_on_purpose_is_not(schema: Any) -> None:
    assert misspelt(load(schema)) is None


def test_equal_schemas_are_named_once_and_few_are_listed() -> None:
    schema = {"prefixItems": [{"requred": ["a"]}, {"requred": ["a"]}, *({"requred": [str(i)]} for i in range(30))]}
    found = misspelt(load(schema))
    assert found is not None
    assert found.count("resembles") == 10
    assert found.startswith(
        "'requred' at #/prefixItems/0 is not a keyword; it resembles 'required'; 'requred' at #/prefixItems/2 "
    )
    assert found.endswith("; and 21 more")


def test_it_is_said_for_every_processor() -> None:
    for _ in range(2):
        with pytest.warns(UserWarning, match="'propertys' at #"):
            lk.from_config({"json_schema": {"type": "object", "propertys": {}}}, BYTES)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.JsonSchema({"properties": {"propertys": True}}, BYTES)


def test_strange_keys_take_little_time() -> None:
    start = time.process_time()
    schema: dict[str, Any] = {f"m{'a' * (i % 3000)}{i}": i for i in range(5000)}
    assert misspelt(load({"type": "object", **schema})) is None
    assert len(misspelt(load(schema)) or "") < 1000
    assert time.process_time() - start < 5
