"""Schemas of many items and members, and schemas that are compiled with small blocks of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

import logitkit as lk
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.json_schema import array_plan, blocks, object_plan, writer

# Tokens that end items and blocks, and go on.
TOKENS = [
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
SMALL = lk.Vocabulary([*TOKENS, None], eos_ids=[len(TOKENS)])

INTEGER = {"enum": [1, 11]}
RECORD = {"type": "object", "properties": {"a": INTEGER}, "required": ["a"], "additionalProperties": False}
MARKED = {
    "type": "object",
    "properties": {"s": {"type": "string", "maxLength": 9}, "m": {"type": "boolean"}},
    "required": ["s", "m"],
    "additionalProperties": False,
}
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
    **{
        f"{n} to {m} contained": (
            array({}, contains=kind, minContains=n, **({} if m is None else {"maxContains": m})),
            {},
        )
        for n, m, kind in (
            (0, 9, INTEGER),
            (4, 9, {"type": "null"}),
            (7, None, {"type": "null"}),
            (3, 5, RECORD),
            (12, None, LIST),
        )
    },
    "contained among few": (
        array({"enum": [1, 11, None]}, contains=INTEGER, minContains=3, maxContains=12, minItems=2),
        {},
    ),
    "contained in two ways": (array({}, contains=RECORD, maxContains=6, prefixItems=[{}, INTEGER], minItems=1), {}),
    "contained and at most": (array(INTEGER, contains={"const": 1}, minContains=2, maxItems=9), {}),
    "few contained and at least": (
        array({}, prefixItems=[{}, {}, {}], contains={"type": "null"}, minContains=0, maxContains=9, minItems=5),
        {},
    ),
    "few contained among few": (array({}, contains={"type": "null"}, minContains=0, maxContains=9, maxItems=2), {}),
    "one that fails behind a prefix": (
        {"type": "array", "not": {"prefixItems": [{}, {}], "items": {"type": "null"}}, "maxItems": 9},
        {},
    ),
    "what cannot be negated": (array({}, contains={"type": "object", "maxProperties": 1}, minContains=5), {}),
    "contained and at least": (array({"enum": [1, "a"]}, contains=INTEGER, maxContains=2, minItems=9, maxItems=20), {}),
    "records contained and at most": (array(RECORD, contains={"properties": {"a": {"const": 11}}}, maxItems=15), {}),
    "marked records": (
        array(MARKED, contains={"properties": {"m": {"const": True}}}, maxContains=2, minItems=2, maxItems=15),
        {},
    ),
    "contained behind a prefix": (array({}, prefixItems=[INTEGER, {}], contains=RECORD, minContains=2, maxItems=9), {}),
    "a few of two kinds contained": (
        array({}, contains=INTEGER, maxContains=6, allOf=[{"contains": {"type": "null"}, "minContains": 2}]),
        {},
    ),
    "many of two kinds contained": (
        array({}, contains=INTEGER, maxContains=6, allOf=[{"contains": {"type": "null"}, "minContains": 4}]),
        {},
    ),
    "members that contain": (
        {"type": "object", "properties": {"a": array(INTEGER, contains={"const": 11}, minContains=5), "b": LIST}},
        {},
    ),
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

# Where a comma begins a block and something else, or where a block would be in itself, all is written out.
# So it is where several numbers are large, or where only some items are themselves written in blocks.
WRITTEN_OUT = (
    "what recurs itself",
    "two bounds",
    "a bound or none",
    "many of two kinds contained",
    "12 to None contained",
    "few contained among few",
    "what cannot be negated",
)

# With `closing`, the end of a nested value may not decide what follows.
ENDS_DECIDE = ("3 to 5 contained", "12 to None contained", "contained in two ways")


@contextmanager
def small_blocks(least: int, items: int) -> Iterator[None]:
    """Write runs longer than some number in blocks, the smallest of which have some number of items."""
    with (
        mock.patch.object(array_plan, "LARGE_COUNT", least),
        mock.patch.object(object_plan, "LARGE_COUNT", least),
        mock.patch.object(array_plan, "LARGE_COUNT_CLOSING", least),
        mock.patch.object(object_plan, "LARGE_COUNT_CLOSING", least),
        mock.patch.object(blocks, "ITEMS", items),
        # With blocks of one item, items are called too.
        mock.patch.object(writer, "LARGE_IN_BLOCKS", items - 1),
        mock.patch.object(writer, "LARGE_PART_IN_BLOCKS", items - 1),
    ):
        yield


def in_blocks_and_out(schema: Any, options: dict[str, Any], items: int = 2) -> tuple[lk.JsonSchema, lk.JsonSchema]:
    """Return a schema with small blocks, and with none."""
    # Other limits, so that neither is taken for the other.
    with small_blocks(2, items):
        called = lk.JsonSchema(schema, SMALL, limits=replace(SCHEMA_LIMITS, work=SCHEMA_LIMITS.work + items), **options)
    with small_blocks(10**9, items):
        return called, lk.JsonSchema(schema, SMALL, **options)
