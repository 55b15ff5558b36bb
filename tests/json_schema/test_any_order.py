"""Members in any order: every sequence of members is judged by the jsonschema package, and by whether a listed name repeats."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from logitkit import Vocabulary
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.languages import json_schema, xml_arguments
from logitkit.structural_tags import structural_tag_language

VOCABULARY = Vocabulary([*(bytes([byte]) for byte in range(256)), b'":1,"', b'{"a":', None], eos_ids=[258])

PROPERTIES = {"a": {"type": "integer"}, "b": {"enum": [1, "x"]}, "c": {"type": ["null", "integer"]}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "optional": {"properties": PROPERTIES, "additionalProperties": False},
    "required": {"properties": PROPERTIES, "required": ["c", "a"], "additionalProperties": False},
    "at least": {"properties": PROPERTIES, "minProperties": 2, "additionalProperties": False},
    "at most": {"properties": PROPERTIES, "maxProperties": 2, "required": ["b"], "additionalProperties": False},
    "needed": {"properties": PROPERTIES, "dependentRequired": {"a": ["c"], "c": ["b"]}, "additionalProperties": False},
    "others": {
        "properties": {"b": {"type": "integer"}},
        "required": ["b"],
        "additionalProperties": {"type": "integer"},
    },
    "others, two": {
        "properties": {"a": {}},
        "required": ["a"],
        "minProperties": 2,
        "additionalProperties": {"const": 1},
    },
    "patterns": {
        "properties": {"a": {"type": "integer"}},
        "patternProperties": {"^[bd]$": {"const": 1}},
        "additionalProperties": False,
    },
    "one of two": {
        "anyOf": [
            {"properties": PROPERTIES, "required": ["a"], "additionalProperties": False},
            {"properties": {"b": {"const": "x"}}, "required": ["b"], "additionalProperties": {"const": None}},
        ]
    },
    "constant": {"enum": [{"a": 1, "b": "x"}, {"c": None}]},
    "nested": {
        "properties": {
            "a": {"type": "object", "properties": PROPERTIES, "required": ["b"], "additionalProperties": False}
        }
    },
}
VALUES: list[Any] = [1, "x", None]


def sequences(names: str, longest: int) -> list[tuple[tuple[str, Any], ...]]:
    """Return all sequences of members, names repeated."""
    members = list(itertools.product(names, VALUES))
    return [some for length in range(longest + 1) for some in itertools.product(members, repeat=length)]


def written(members: tuple[tuple[str, Any], ...]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in members) + "}"


def wanted(schema: dict[str, Any], members: tuple[tuple[str, Any], ...]) -> bool | None:
    """Whether members satisfy a schema; None if the name of one that is not listed repeats, which no automaton tells."""
    names = [name for name, _ in members]
    again = {name for name in names if names.count(name) > 1}
    if again:
        # The names that all objects list.
        listed = {"a", "b", "c"} if "enum" in schema else {"b"} if "anyOf" in schema else {*schema["properties"]}
        return None if again - listed or "patternProperties" in schema else False
    return bool(Draft202012Validator({"type": "object", **schema}).is_valid(dict(members)))


@pytest.mark.parametrize("name", [name for name in SCHEMAS if name != "nested"])
def test_every_sequence_of_members(name: str) -> None:
    schema = SCHEMAS[name]
    constraint = json_schema({"type": "object", **schema}, any_order=True).constraint(VOCABULARY)
    accepted = 0
    for members in sequences("abcd" if "additional" in json.dumps(schema) else "abc", 3):
        expected = wanted(schema, members)
        if expected is not None:
            assert constraint.matches(written(members)) == expected, written(members)
            accepted += expected
    assert accepted


def test_objects_inside_of_objects() -> None:
    schema = {"type": "object", **SCHEMAS["nested"], "additionalProperties": False}
    constraint = json_schema(schema, any_order=True).constraint(VOCABULARY)
    inner = SCHEMAS["nested"]["properties"]["a"]
    for members in sequences("abc", 2):
        assert constraint.matches(f'{{"a":{written(members)}}}') == bool(wanted(inner, members))


def test_members_between_tags() -> None:
    schema = {"type": "object", "properties": PROPERTIES, "required": ["b"], "additionalProperties": False}
    constraint = xml_arguments(schema, begin="<{name}>", end="</>", separator="", any_order=True).constraint(VOCABULARY)
    for members in sequences("abc", 2):
        text = "".join(
            f"<{name}>{value if isinstance(value, str) else json.dumps(value)}</>" for name, value in members
        )
        assert constraint.matches(text) == wanted(schema, members), text


def test_white_space_and_the_default_order() -> None:
    schema = {"type": "object", "properties": PROPERTIES, "additionalProperties": False}
    spaced = json_schema(schema, any_order=True, whitespace="spaced").constraint(VOCABULARY)
    ordered = json_schema(schema).constraint(VOCABULARY)
    text = '{"c":1,"a":2}'
    assert (spaced.matches('{"c": 1, "a": 2}'), spaced.matches(text), ordered.matches(text)) == (True, True, False)
    assert json_schema(schema, any_order=True) != json_schema(schema)


def test_limits_are_named() -> None:
    many = {
        "type": "object",
        "properties": {f"p{i}": {"type": "integer"} for i in range(9)},
        "additionalProperties": False,
    }
    with pytest.raises(UnsupportedSchema, match=r"9 listed names.*allowed are 8"):
        json_schema(many, any_order=True).constraint(VOCABULARY, closing=True)
    with pytest.raises(UnsupportedSchema, match=r"9 listed names.*allowed are 8"):
        xml_arguments(many, any_order=True).constraint(VOCABULARY)
    document = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": many, "any_order": True}}
    with pytest.raises(UnsupportedSchema, match=r"format\.json_schema"):
        structural_tag_language(document).constraint(VOCABULARY, closing=True)
    text = "{" + ",".join(f'"p{i}":{i}' for i in (5, 0, 8, 2, 1, 7, 3)) + "}"
    assert structural_tag_language(document).constraint(VOCABULARY).matches(text)
    at_least = {"type": "object", "properties": {"a": {}}, "minProperties": 3, "required": ["a"]}
    with pytest.raises(UnsupportedSchema, match="at least 2 different names that are not listed"):
        json_schema(at_least, any_order=True).constraint(VOCABULARY)
    with pytest.raises(ConfigurationError, match="any_order is 1; allowed are True and False"):
        json_schema(many, any_order=1)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="any_order is 1; allowed are True and False"):
        xml_arguments(many, any_order=1)  # type: ignore[arg-type]
