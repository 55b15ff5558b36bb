"""Strings and literals that a schema lists are one step each in its nested grammar, wherever they stand."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import Mock

import pytest

import logitkit as lk
from logitkit.compiler.nested_grammars.parts import parts_of
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.json_schema.compile import schema_grammar
from logitkit.json_schema.document import load
from tests.automata.linked import SMALL, written
from tests.json_schema.judge import judge

STATES = [f"state number {i}" for i in range(20)]


def object_of(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": [*properties],
        "additionalProperties": False,
    }


def test_a_listed_text_takes_one_step() -> None:
    nested_grammar = schema_grammar(load(object_of(a={"enum": [*STATES, True, None]})), SCHEMA_LIMITS).nested_grammar
    assert {json.dumps(text).encode() for text in ("a", *STATES)} | {b"true", b"null"} <= {*nested_grammar.words}
    # The brace, the name, the colon, the value, and the end.
    assert len(parts_of(nested_grammar, SCHEMA_LIMITS)[()].ends) <= 6


CASES: dict[str, tuple[Any, list[Any]]] = {
    "literals beside numbers": (
        object_of(a={"enum": [True, False, None, 1, "true"]}),
        [{"a": True}, {"a": False}, {"a": None}, {"a": 1}, {"a": "true"}, {"a": "null"}, {"a": 0}, {"a": {}}],
    ),
    "strings that begin like the names beside them": (
        {"type": "object", "properties": {"ab": {"enum": ["ab", "a"]}}, "additionalProperties": {"const": "abc"}},
        [{"ab": "ab"}, {"ab": "abc"}, {"abc": "abc"}, {"a": "a"}, {"ab": "a", "x": "abc"}],
    ),
    "any value beside a literal": (
        {"anyOf": [object_of(a=True, b={"const": 1}), object_of(a={"type": ["boolean", "null"]})]},
        [{"a": True}, {"a": None}, {"a": "x"}, {"a": "x", "b": 1}, {"a": False, "b": 1}, {"a": [None], "b": 1}],
    ),
    "whole arrays beside arrays of strings": (
        {
            "anyOf": [
                object_of(a={"type": "array", "items": {"enum": ["size", "mode"]}}),
                object_of(a={"enum": [["size", "gone", None], ["mode"], ["a\nb", {"x": [True, 1.5]}]]}, b={"const": 1}),
            ]
        },
        [
            {"a": ["size", "mode"]},
            {"a": ["size", "gone", None]},
            {"a": ["size", "gone", None], "b": 1},
            {"a": ["mode"]},
            {"a": ["mode"], "b": 1},
            {"a": ["size"], "b": 1},
            {"a": ["a\nb", {"x": [True, 1.5]}], "b": 1},
            {"a": ["a\nb", {"x": [True, 1]}], "b": 1},
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_listed_texts_are_told_apart(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema, documents = CASES[name]
    reader = Mock(wraps=schema_grammar)
    monkeypatch.setattr("logitkit.constraints.json_schema.schema_grammar", reader)
    constraint = lk.JsonSchema(schema, SMALL)
    # Strings stay apart from the nested grammar: it was read once, not again with all of them written in place.
    assert reader.call_count == 1
    valid = judge(schema).is_valid
    for seed, document in enumerate(documents):
        assert written(document, constraint, seed) == valid(document), document
