"""Large parts that a schema uses repeatedly are called, where calls can be told apart."""

from __future__ import annotations

from typing import Any

import pytest

import logitkit as lk
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.json_schema.compile import schema_network
from logitkit.json_schema.document import load
from tests.json_schema.canonical import canonical
from tests.json_schema.judge import judge


def option(i: int) -> dict[str, Any]:
    """Return an object with a large array that it uses twice."""
    items = {"type": "integer", "minimum": 1000 * i + 1, "maximum": 123456 * i + 57}
    rows = {"type": "array", "minItems": 1, "maxItems": 9, "items": items}
    members = {"rows": rows, "more": rows, "kind": {"const": f"k{i}"}}
    return {"type": "object", "properties": members, "required": ["rows", "kind"], "additionalProperties": False}


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


def test_what_is_large_is_called_early() -> None:
    assert len(schema_network(load(union(4)), SCHEMA_LIMITS, calls_early=True).network.definitions) > len(
        schema_network(load(union(4)), SCHEMA_LIMITS).network.definitions
    )
