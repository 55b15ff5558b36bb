"""Completions and examples of schemas whose items must differ: there are more places than can be searched one after another."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.runtime.completion import completion_of
from tests.explaining.test_questions import BYTES

PAIR = {
    "type": "object",
    "properties": {"x": {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 2}},
    "required": ["x"],
}
SCHEMAS: dict[str, dict[str, Any]] = {
    "strings": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 20},
    "all digits": {"type": "array", "items": {"enum": [*range(10)]}, "uniqueItems": True, "minItems": 10},
    "numbers in lists": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "number"}, "maxItems": 3},
        "uniqueItems": True,
        "minItems": 6,
    },
    "pairs of letters": {
        "type": "array",
        "items": {"type": "string", "pattern": "^[a-z]{2}$"},
        "uniqueItems": True,
        "minItems": 30,
    },
    "few texts": {"type": "array", "items": {"enum": ["aa", "ab", "ba", "c"]}, "uniqueItems": True, "minItems": 4},
    "sets of sets": {"type": "array", "items": PAIR, "uniqueItems": True, "minItems": 2},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_examples_are_found(name: str) -> None:
    constraint = lk.JsonSchema(SCHEMAS[name], BYTES)
    for seed in range(8):
        jsonschema.validate(json.loads(constraint.example(seed)), SCHEMAS[name])


@pytest.mark.parametrize("name", [name for name, schema in SCHEMAS.items() if schema["items"] is not PAIR])
def test_each_part_of_a_text_is_completed(name: str) -> None:
    constraint = lk.JsonSchema(SCHEMAS[name], BYTES)
    text = constraint.example(1).encode()
    for size in range(0, len(text) + 1, max(1, len(text) // 12)):
        rest = completion_of(constraint, [*text[:size]])
        assert rest is not None
        jsonschema.validate(json.loads(text[:size] + bytes(rest)), SCHEMAS[name])


def test_a_completion_avoids_tokens_that_are_not_usable_and_items_that_are_used_up() -> None:
    constraint = lk.JsonSchema({"type": "array", "items": {"enum": [1, 2, 3, 4]}, "uniqueItems": True}, BYTES)
    usable = constraint.allowed_tokens(constraint.init_state(lk.Context.of([[]], vocabulary_size=BYTES.size)))[0] | True
    usable[ord("3")] = False
    assert completion_of(constraint, [*b"[1,"], allowed=usable.numpy()) == tuple(b"2]")
    assert completion_of(constraint, [*b"[1,2,"], allowed=usable.numpy()) == tuple(b"4]")
    assert completion_of(constraint, [*b"[1,2,4,"], allowed=usable.numpy()) is None
    assert completion_of(constraint, [*b"[1,1"]) is None


def test_other_texts_are_tried_where_one_leads_nowhere_with_the_usable_tokens() -> None:
    items = {"type": "string", "pattern": "^[abcdefghij][klmnopqrst]$"}
    constraint = lk.JsonSchema({"type": "array", "items": items, "uniqueItems": True, "minItems": 3}, BYTES)
    assert constraint.automaton.remembers is not None
    usable = constraint.allowed_tokens(constraint.init_state(lk.Context.of([[]], vocabulary_size=BYTES.size)))[0] | True
    usable[[*b"lmnopqrst"]] = False
    for text in (b'["ak",', b'["ak","', b'["ak","b'):
        rest = completion_of(constraint, [*text], allowed=usable.numpy())
        assert rest is not None
        assert not {*rest} & {*b"lmnopqrst"}
        words = json.loads(text + bytes(rest))
        assert len({*words}) == len(words) == 3
    assert completion_of(constraint, [*b'["ak","a'], allowed=usable.numpy()) is None


def test_where_no_completion_is_found_an_example_is_an_error() -> None:
    """Each of forty strings can have a hundred lengths: these are more places than are searched."""
    schema = {"type": "array", "items": {"type": "string", "maxLength": 100}, "uniqueItems": True, "minItems": 40}
    with pytest.raises(ConfigurationError, match="no way to complete"):
        lk.JsonSchema(schema, BYTES).example(0)
