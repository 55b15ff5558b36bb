"""Names that come twice: never those that a schema knows; others may, and no bound or condition is met by it."""

from __future__ import annotations

import json
from itertools import product
from typing import Any
from unittest import mock

import pytest

import logitkit as lk
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema import object_plan
from logitkit.languages import json_schema
from tests.json_schema.acceptance import BYTES, acceptor, nested
from tests.json_schema.canonical import canonical
from tests.json_schema.judge import judge

VALUES = ("1", '"s"')


def texts(names: str, most: int) -> list[tuple[tuple[str, ...], str]]:
    """Every object up to a number of members, with its names as they are written."""
    found = []
    for count in range(most + 1):
        for members in product(product(names, VALUES), repeat=count):
            inside = ",".join(f'"{name}":{value}' for name, value in members)
            found.append((tuple(name for name, _ in members), "{" + inside + "}"))
    return found


TEXTS = texts("abxy", 3)
INTEGER = {"type": "integer"}

# Each with the names that may come twice.
SCHEMAS: dict[str, tuple[dict[str, Any], str]] = {
    "any": ({}, "abxy"),
    "declared": ({"properties": {"a": INTEGER, "b": {}}}, "xy"),
    "closed": ({"properties": {"b": INTEGER, "a": {}}, "additionalProperties": False}, ""),
    "required": ({"required": ["a"], "additionalProperties": INTEGER}, "bxy"),
    "free values": ({"properties": {"a": {}}, "additionalProperties": INTEGER}, "bxy"),
    "at least one": ({"minProperties": 1}, "abxy"),
    "at least two": ({"minProperties": 2, "required": ["a"]}, "bxy"),
    "at least three": ({"minProperties": 3, "required": ["b", "a"]}, "xy"),
    "at most two": ({"maxProperties": 2}, "abxy"),
    "two to three": ({"minProperties": 2, "maxProperties": 3, "required": ["x"], "properties": {"a": {}}}, "by"),
    "needed": ({"dependentRequired": {"a": ["b"]}}, "xy"),
    "not what is needed": ({"not": {"dependentRequired": {"a": ["b"]}}}, "xy"),
    "needed twice": ({"dependentRequired": {"x": ["y"], "y": ["a"]}}, "b"),
    "dependent schema": ({"dependentSchemas": {"a": {"properties": {"x": INTEGER}, "minProperties": 2}}}, "bxy"),
    "names in an enum": ({"propertyNames": {"enum": ["x", "b", "a"]}}, ""),
    "few names": ({"propertyNames": {"pattern": "^[abx]?$"}, "additionalProperties": INTEGER}, ""),
    "names in an enum, at least two": ({"propertyNames": {"enum": ["x", "b", "a"]}, "minProperties": 2}, ""),
    "names referred to": ({"propertyNames": {"$ref": "#/$defs/n"}, "$defs": {"n": {"enum": ["y", "b"]}}}, ""),
    "patterns of few names": ({"patternProperties": {"^[ab]$": INTEGER}, "additionalProperties": False}, ""),
    "patterns of few names among others": ({"patternProperties": {"^[ab]$": INTEGER}}, "xy"),
    "few names and at least two": (
        {"patternProperties": {"^(a|b)$": {}}, "additionalProperties": INTEGER, "minProperties": 1, "required": ["x"]},
        "y",
    ),
    "patterns": ({"patternProperties": {"[ax]": INTEGER, "[xy]": {}}, "additionalProperties": False}, "axy"),
    "in branches": (
        {"anyOf": [{"additionalProperties": INTEGER}, {"additionalProperties": {"type": "string"}}]},
        "abxy",
    ),
    "if a name is there": (
        {"if": {"required": ["x"]}, "then": {"maxProperties": 2}, "else": {"required": ["a"]}},
        "aby",
    ),
    "if there are many": ({"if": {"maxProperties": 1}, "then": {"required": ["a"]}, "else": False}, "bxy"),
    "if there are two": ({"if": {"minProperties": 2}, "then": {"required": ["a"]}}, "bxy"),
    "not empty": ({"not": {"maxProperties": 0}}, "abxy"),
    "none but one": ({"not": {"additionalProperties": False, "properties": {"a": {}}}}, "bxy"),
    # A name that one branch knows is free in the other one.
    "known in one branch": (
        {"anyOf": [{"properties": {"a": INTEGER}}, {"required": ["b"]}], "unevaluatedProperties": INTEGER},
        "abxy",
    ),
    "what was not looked at": ({"properties": {"a": {}}, "unevaluatedProperties": INTEGER}, "bxy"),
    # A row remembers all names of these.
    "two names": ({"minProperties": 2}, ""),
    "two names beside a declared one": ({"minProperties": 2, "properties": {"a": {}}}, ""),
    "two names beside a required one": ({"minProperties": 3, "required": ["a"]}, ""),
    "two names of a pattern": (
        {"minProperties": 2, "patternProperties": {"^[a-z]{2}$|^[xy]$": INTEGER}, "additionalProperties": False},
        "",
    ),
    "not one": ({"not": {"maxProperties": 1}}, ""),
    "two names, or another one": ({"oneOf": [{"minProperties": 2}, {"required": ["a"]}]}, ""),
    "two names, all of one type": ({"minProperties": 2, "additionalProperties": INTEGER}, ""),
    "exactly two names": ({"minProperties": 2, "maxProperties": 2, "propertyNames": {"pattern": "^[a-x]"}}, ""),
    "exactly one": ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "minProperties": 2}, "xy"),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_names_that_come_twice(name: str) -> None:
    schema, free = SCHEMAS[name]
    schema = {"type": "object", **schema}
    accepts, validator = acceptor(schema), judge(schema)
    twice = set()
    for names, text in TEXTS:
        if names == tuple(sorted(set(names))):
            assert accepts(canonical(json.loads(text), validator)) == validator.is_valid(json.loads(text)), text
        if accepts(text):
            # If a name occurs twice, the last value counts.
            assert validator.is_valid(json.loads(text)), text
            twice |= {name for name in names if names.count(name) > 1}
    assert twice <= set(free), "what a schema knows comes once"


def test_what_names_that_come_twice_would_make_wrong_is_refused() -> None:
    schema = {
        "allOf": [{"not": {"additionalProperties": INTEGER}}, {"not": {"additionalProperties": {"type": "null"}}}]
    }
    with pytest.raises(UnsupportedSchema, match=r"different names|names are different"):
        acceptor({"type": "object", **schema})


@pytest.mark.parametrize(
    "schema",
    [
        {"not": {"additionalProperties": INTEGER}},
        {"not": {"additionalProperties": INTEGER, "properties": {"a": {"type": "string"}}}},
        {"not": {"patternProperties": {"^[ab]": INTEGER}}, "properties": {"a": {}}},
        {"not": {"patternProperties": {"^[ab]": INTEGER, "^[xy]": {"type": "string"}}}},
        {"oneOf": [{"additionalProperties": INTEGER}, {"additionalProperties": {"type": "string"}}]},
        {"if": {"additionalProperties": INTEGER}, "then": {"required": ["a"]}, "else": {"required": ["b"]}},
        {"not": {"additionalProperties": INTEGER}, "maxProperties": 2},
        {"not": {"additionalProperties": INTEGER}, "enum": [{"x": 1, "y": "s"}, {"x": 1}, {"a": "s"}]},
        {
            "propertyNames": {"enum": ["a", "b"]},
            "allOf": [
                {"not": {"additionalProperties": INTEGER}},
                {"not": {"additionalProperties": {"type": "string"}}},
            ],
        },
    ],
    ids=str,
)
@pytest.mark.parametrize("any_order", [False, True])
def test_of_the_names_that_may_come_twice_the_last_value_fails(schema: dict[str, Any], any_order: bool) -> None:
    schema = {"type": "object", **schema}
    dfa = json_schema(schema, any_order=True).constraint(BYTES).nested_dfa() if any_order else nested(schema)
    validator = judge(schema)
    met: dict[tuple[tuple[str, Any], ...], bool] = {}
    for names, text in TEXTS:
        value, accepted = json.loads(text), dfa.accepts(text.encode())
        # If a name occurs twice, the last value counts.
        assert validator.is_valid(value) or not accepted, text
        if len(value) == len(names):
            members = tuple(sorted(value.items()))
            met[members] = met.get(members, False) or accepted
    # In some order of its members, each valid object is accepted.
    for members, accepted in met.items():
        assert accepted == validator.is_valid(dict(members)), members


def test_a_listed_name_may_come_after_the_value_that_fails() -> None:
    schema = {"type": "object", "properties": {"a": {}}, "not": {"additionalProperties": INTEGER}}
    dfa = json_schema(schema, any_order=True).constraint(BYTES).nested_dfa()
    for text in ('{"x":"s","a":1}', '{"a":1,"x":"s"}', '{"a":"s","x":1}', '{"x":1,"a":"s"}', '{"x":"s","a":"s","y":1}'):
        assert dfa.accepts(text.encode()), text
    for text in ('{"x":1,"a":1}', '{"x":"s","a":1,"y":1}', '{"x":"s","x":1}'):
        assert not dfa.accepts(text.encode()), text


def test_many_members_of_which_the_last_fails() -> None:
    # Its automaton over tokens writes many members in blocks, where that is possible.
    schema = {"type": "object", "not": {"additionalProperties": INTEGER}, "maxProperties": 60}
    constraint = lk.JsonSchema(schema, BYTES)
    for count in (1, 2, 17, 59, 60, 61):
        for last in ("1", '"s"'):
            values = ["1"] * (count - 1) + [last]
            text = "{" + ",".join(f'"n{i}":{value}' for i, value in enumerate(values)) + "}"
            assert constraint.matches(text) == (count <= 60 and last != "1"), text


def test_a_few_hundred_possible_names_come_once() -> None:
    names = [f"n{i:03}" for i in range(256)]
    accepts = acceptor({"type": "object", "propertyNames": {"enum": names}, "additionalProperties": INTEGER})
    assert accepts('{"n003":1,"n200":1,"n255":1}')
    assert not accepts('{"n003":1,"n003":1}')
    assert not accepts('{"n200":1,"n003":1}')


def test_required_names_need_not_be_looked_for_among_others() -> None:
    """The greatest number of names that are looked for does not count those that must be there anyway."""
    schema = {
        "type": "object",
        "properties": {name: {"const": 1} for name in "abc"},
        "required": [*"abc"],
        "minProperties": 5,
        "additionalProperties": {"const": 2},
    }
    with mock.patch.object(object_plan, "MOST_WANTED", 2):
        accepts = acceptor(schema)
        for others in product("xyz", repeat=3):
            for count in range(4):
                text = "{" + ",".join(['"a":1,"b":1,"c":1', *[f'"{name}":2' for name in others[:count]]]) + "}"
                different = len({*others[:count]}) == count
                assert accepts(text) == (different and judge(schema).is_valid(json.loads(text)))
        with pytest.raises(UnsupportedSchema, match="for more than 2 of them, a row cannot remember them"):
            acceptor({**schema, "minProperties": 6})
