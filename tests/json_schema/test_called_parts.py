"""Large parts that a schema uses repeatedly are called, where calls can be told apart."""

from __future__ import annotations

import random
from typing import Any
from unittest import mock

import pytest

import logitkit as lk
from logitkit.compiler.nested_grammars.unfolding import Unfolding
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.errors import ConfigurationError
from logitkit.json_schema import writer
from logitkit.json_schema.compile import schema_grammar
from logitkit.json_schema.document import load
from logitkit.languages import json_schema, tag
from tests.json_schema.acceptance import BYTES
from tests.json_schema.canonical import canonical
from tests.json_schema.judge import judge


def option(i: int) -> dict[str, Any]:
    """Return an object with a large array that it uses twice."""
    items = {"type": "integer", "minimum": 1000 * i + 1, "maximum": 123456 * i + 57}
    rows = {"type": "array", "minItems": 1, "maxItems": 9, "items": items}
    members = {"rows": rows, "more": rows, "kind": {"const": f"k{i}"}}
    return {"type": "object", "properties": members, "required": ["rows", "kind"], "additionalProperties": False}


def needs(**properties: Any) -> dict[str, Any]:
    """Return an object with some members."""
    return {"type": "object", "properties": properties, "required": [*properties]}


def union(options: int) -> dict[str, Any]:
    """Return an open object, which calls any value, with one of some options."""
    return {"type": "object", "properties": {"any": {}, "one": {"oneOf": [option(i + 1) for i in range(options)]}}}


@pytest.mark.parametrize("options", [4, 7])
def test_what_is_called_is_what_jsonschema_accepts(options: int) -> None:
    schema = union(options)
    constraint = lk.JsonSchema(schema, lk.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_ids=[256]))
    for one in (
        {"rows": [1001, 2002], "kind": "k1"},
        {"rows": [1001, 2], "kind": "k1"},
        {"rows": [2002], "more": [246969], "kind": "k2"},
        {"rows": [2002], "more": [246970], "kind": "k2"},
        {"rows": [], "kind": "k2"},
    ):
        assert constraint.matches(canonical({"one": one})) == judge(schema).is_valid({"one": one})


def test_what_is_large_is_called_unless_many_begin_together() -> None:
    rules = [len(schema_grammar(load(union(n)), SCHEMA_LIMITS).nested_grammar.rules) for n in (4, 7)]
    assert rules[0] > rules[1]


@pytest.mark.parametrize("others", [{}, {"additionalProperties": False}])
def test_of_parts_that_begin_together_all_are_called_if_one_is(others: dict[str, Any]) -> None:
    """Large arrays are called, and in an open object also those beside any value; so the small array beside them is too."""
    small = {"type": "array", "items": {"enum": [1001, 2002]}}
    schema = union(3)
    options = [*schema["properties"]["one"]["oneOf"], {**needs(rows=small), **others}]
    schema["properties"]["one"] = {"anyOf": options}
    vocabulary = lk.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_ids=[256])
    with mock.patch.object(Unfolding, "_copy", side_effect=AssertionError("one is written in place")):
        constraint = lk.JsonSchema(schema, vocabulary)
    for one in ({"rows": [1001, 2002]}, {"rows": [1001, 2002], "kind": "k1"}, {"rows": [1002], "kind": "k1"}):
        assert constraint.matches(canonical({"one": one})) == judge(schema).is_valid({"one": one})


ONES = {"type": "array", "contains": {"const": 1}}
SMALL = {"type": "array", "items": {"enum": [1, 2]}}
THREES = {"type": "array", "contains": {"const": 3}}

# After each inner array, it depends on its end which outer arrays the text may still be.
BY_THEIR_ENDS: dict[str, Any] = {
    "all or one": {"type": "array", "oneOf": [{"items": ONES}, {"contains": SMALL}]},
    "all and one": {"type": "array", "oneOf": [{"items": ONES, "contains": SMALL}, {"items": SMALL, "contains": ONES}]},
    "one of three": {"type": "array", "oneOf": [{"items": ONES}, {"contains": SMALL}, {"contains": THREES}]},
    "each of three": {"type": "array", "allOf": [{"contains": ONES}, {"contains": SMALL}, {"contains": THREES}]},
}


@pytest.mark.parametrize("name", BY_THEIR_ENDS)
def test_arrays_that_continue_in_many_ways_are_told_apart_by_their_ends(name: str) -> None:
    schema = BY_THEIR_ENDS[name]
    vocabulary = lk.Vocabulary([*(bytes([b]) for b in range(256)), b"],[", b"]]", b",1", None], eos_ids=[259])
    alone = lk.JsonSchema(schema, vocabulary)
    tagged = tag("<x>", json_schema(schema), "</x>").constraint(vocabulary)
    valid, chance, met = judge(schema).is_valid, random.Random(0), set()
    for _ in range(300):
        value = [
            [chance.choice([1, 2, 3, [1]]) for _ in range(chance.randint(0, 3))] for _ in range(chance.randint(0, 4))
        ]
        text, verdict = canonical(value), valid(value)
        met.add(verdict)
        assert alone.matches(text) == verdict
        assert tagged.matches(f"<x>{text}</x>") == verdict
    assert met == {True, False}


def test_what_has_no_finite_value_begins_nothing() -> None:
    """A loop holds a loop; beside trees, which begin with the same bracket, it is never entered."""
    members = {"kids": {"$ref": "#/$defs/tree"}, "loop": {"$ref": "#/$defs/loop"}}
    kid = {"anyOf": [{"$ref": "#/$defs/loop"}, {"$ref": "#/$defs/tree"}]}
    tree = {"properties": {"kids": {"type": "array", "items": kid}}, "required": ["kids"]}
    rules = {
        "tree": {"type": "object", "additionalProperties": False, **tree},
        "loop": {"type": "object", "additionalProperties": False, "properties": members, "required": ["loop", "kids"]},
    }
    schema = {"$ref": "#/$defs/tree", "$defs": rules}
    vocabulary = lk.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_ids=[256])
    constraint = lk.JsonSchema(schema, vocabulary)
    dfa = constraint.nested_dfa()
    for text in (
        '{"kids":[{"kids":[]}]}',
        '{"kids":[{"kids":{',
        '{"kids":[{"loop"',
        '{"kids":[{"kids":[{"kids":[]},{"',
    ):
        legal = len([*dfa.endings(text.encode())]) == len(text) + 1
        assert legal == ('kids":{' not in text and "loop" not in text), text
    assert constraint.matches('{"kids":[{"kids":[]}]}')
    assert judge(schema).is_valid({"kids": [{"kids": []}]})


def uses_small_parts() -> dict[str, Any]:
    """Return an open object, which calls any value, with members that use a small object many times."""
    point = {
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}, "label": {"enum": ["left", "right"]}},
        "required": ["x", "y"],
        "additionalProperties": False,
    }
    pairs = {f"pair{i}": {"enum": [f"{i} pairs of a kind of their own"]} for i in range(60)}
    return {"type": "object", "properties": {"any": {}, **{f"at{i}": point for i in range(40)}, **pairs}}


def test_small_parts_are_called_where_there_is_a_stack() -> None:
    schema = uses_small_parts()
    rules = len(schema_grammar(load(schema), SCHEMA_LIMITS).nested_grammar.rules)
    with mock.patch.object(writer, "LARGE_NESTED_PART", 100):
        assert rules == 1 + len(schema_grammar(load(schema), SCHEMA_LIMITS).nested_grammar.rules)
    constraint = lk.JsonSchema(schema, BYTES)
    for one in ({"at3": {"x": 1, "y": 2}}, {"at3": {"x": 1}}, {"at0": {"x": 1, "y": 2, "label": "left"}, "at1": 1}):
        assert constraint.matches(canonical(one)) == judge(schema).is_valid(one)


def test_few_calls_of_small_parts_are_open_at_once() -> None:
    """A row has room for a limited number of them."""
    definitions: dict[str, Any] = {"p0": {"type": "object", "properties": {"a_long_name": {"type": "integer"}}}}
    for i in range(1, 40):
        inside = {"$ref": f"#/$defs/p{i - 1}"}
        definitions[f"p{i}"] = {**needs(first_name=inside, other_name=inside), "additionalProperties": False}
    schema = {"$defs": definitions, "$ref": "#/$defs/p39"}
    assert lk.JsonSchema(schema, BYTES).automaton.nesting.max_depth == 32
    with (
        mock.patch.object(writer, "DEEPEST_SMALL", 99),
        pytest.raises(ConfigurationError, match="nests at most 32 deep"),
    ):
        # Another text, as the automaton of the first one is kept.
        lk.JsonSchema({**schema, "title": "again"}, BYTES)
