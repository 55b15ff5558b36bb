"""Long runs of items and members are written in blocks that are called; they allow what items that are written out allow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.json_schema import array_plan, blocks, object_plan
from logitkit.runtime.walk import Walk
from tests.automata.linked import written
from tests.json_schema.judge import judge
from tests.json_schema.walks import walk
from tests.vocabularies import tekken

# Tokens that end items and blocks, and go on.
_TOKENS = [
    *[bytes([b]) for b in range(256)],
    *(b"1,", b",1", b",1,1,", b"1,1,1,1,1,1,1", b"1]", b",1]", b"],[", b"]]", b"]}", b"]},{", b",[", b",[[", b"[[1,"),
    *(
        b'":',
        b'","',
        b'"}',
        b'{"',
        b'["',
        b'",',
        b'"]',
        b'"a":1',
        b'1,"a',
        b"1}",
        b"},{",
        b"}}",
        b",{}",
        b"{},",
        b"}]",
        b'},"',
    ),
    *(b",\n", b"\n ", b" ]", b", 1", b"\n]", b"null,", b"null", b',null,"'),
]
SMALL = lk.Vocabulary([*_TOKENS, None], eos_ids=[len(_TOKENS)])

INTEGER = {"enum": [1, 11]}
RECORD = {"type": "object", "properties": {"a": INTEGER}, "required": ["a"], "additionalProperties": False}
TREE = {"type": "array", "items": {"$ref": "#/$defs/tree"}}
LIST = {"type": "array", "items": {"type": "null"}, "maxItems": 5}


def array(items: Any, **keywords: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **keywords}


SCHEMAS: dict[str, tuple[Any, dict[str, Any]]] = {
    **{f"at most {n}": (array(INTEGER, maxItems=n), {}) for n in (4, 5, 6, 9, 12, 23, 24, 31)},
    **{f"at least {n}": (array(INTEGER, minItems=n), {}) for n in (4, 5, 9, 12, 23, 24)},
    **{
        f"{n} to {m}": (array(INTEGER, minItems=n, maxItems=m), {})
        for n, m in ((1, 9), (3, 11), (9, 9), (8, 20), (7, 8))
    },
    "items of a prefix": (array(INTEGER, prefixItems=[{"type": "null"}, {}], minItems=1, maxItems=15), {}),
    "records": (array(RECORD, maxItems=20), {}),
    "strings": (array({"type": "string", "pattern": "^a?$"}, minItems=2, maxItems=13), {}),
    "counted strings": (array({"type": "string", "maxLength": 40}, maxItems=6), {}),
    "arrays of arrays": (array(array({"type": "null"}, maxItems=7), minItems=4, maxItems=7), {}),
    "mixed items": (array({"anyOf": [INTEGER, RECORD, LIST, {"type": "null"}]}, maxItems=8), {}),
    "spaced": (array(RECORD, maxItems=9), {"whitespace": "spaced"}),
    "indented": (array({"type": "null"}, minItems=3, maxItems=9), {"whitespace": "bounded"}),
    "members": ({"type": "object", "additionalProperties": INTEGER, "maxProperties": 9}, {}),
    "members beside others": (
        {
            "type": "object",
            "properties": {"a": INTEGER, "b": {"type": "null"}},
            "required": ["b"],
            "patternProperties": {"^x": {"type": "null"}},
            "additionalProperties": LIST,
            "minProperties": 2,
            "maxProperties": 9,
        },
        {},
    ),
    "in an object": ({"type": "object", "properties": {"a": array(INTEGER, maxItems=9), "b": LIST}}, {}),
    "items that recur": ({**array({"$ref": "#/$defs/tree"}, maxItems=7), "$defs": {"tree": TREE}}, {"max_depth": 2}),
    "in what recurs": (
        {
            "type": "object",
            "properties": {"a": LIST, "b": array(TREE, maxItems=5), "c": {"$ref": "#"}},
            "additionalProperties": False,
            "$defs": {"tree": TREE},
        },
        {"max_depth": 2},
    ),
    "what recurs itself": (array({"$ref": "#"}, maxItems=6), {"max_depth": 3}),
    "two bounds": ({"anyOf": [array(INTEGER, maxItems=6), array({"type": ["null", "integer"]}, maxItems=9)]}, {}),
    "a bound or none": ({"anyOf": [array(INTEGER, maxItems=6), array({"type": "null"})]}, {}),
}


@contextmanager
def small_blocks(least: int, items: int) -> Iterator[None]:
    """Write runs longer than some number in blocks, the smallest of which have some number of items."""
    with (
        mock.patch.object(array_plan, "LARGE_COUNT", least),
        mock.patch.object(object_plan, "LARGE_COUNT", least),
        mock.patch.object(blocks, "ITEMS", items),
    ):
        yield


def in_blocks_and_out(schema: Any, options: dict[str, Any], items: int = 2) -> tuple[lk.JsonSchema, lk.JsonSchema]:
    """Return a schema with small blocks, and with none."""
    # Other limits, so that neither is taken for the other.
    with small_blocks(2, items):
        called = lk.JsonSchema(schema, SMALL, limits=replace(SCHEMA_LIMITS, work=SCHEMA_LIMITS.work + items), **options)
    with small_blocks(10**9, items):
        return called, lk.JsonSchema(schema, SMALL, **options)


@pytest.mark.parametrize("items", [1, 2, 3])
@pytest.mark.parametrize("name", SCHEMAS)
def test_blocks_allow_what_items_that_are_written_out_allow(name: str, items: int) -> None:
    called, out = in_blocks_and_out(*SCHEMAS[name], items)
    assert out.automaton.nesting.blocks == 0
    assert called.automaton.nesting.blocks or items > 1 or name in ("what recurs itself", "a bound or none")
    classes = np.stack([called.automaton.class_of, out.automaton.class_of])
    # One token of each kind.
    tokens = np.unique(classes, axis=1, return_index=True)[1]
    start = Walk.start(called.automaton), Walk.start(out.automaton)
    seen, todo = {(start[0].key, start[1].key)}, [start]
    while todo and len(seen) < 3000:
        one, other = todo.pop(len(todo) // 2)
        legal = one.legal()[called.automaton.class_of]
        assert np.array_equal(legal, other.legal()[out.automaton.class_of])
        assert legal.any()
        for token in tokens[legal[tokens]].tolist():
            pair = one.after(token), other.after(token)
            key = pair[0].key, pair[1].key
            if pair[0].is_live and key not in seen:
                seen.add(key)
                todo.append(pair)
