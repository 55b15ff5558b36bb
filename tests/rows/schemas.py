"""Constraints by JSON Schema, finite ones and those that nest without bound."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from tests.rows.row import EOS, PAD, Row, ids

RECORD = {
    "type": "object",
    "properties": {"ab": {"type": "integer", "minimum": 5}, "cat": {"enum": ["dog", "og"]}},
    "required": ["ab"],
    "additionalProperties": False,
}
LIST = {"type": "array", "items": {"type": "integer"}, "maxItems": 3}
# A list of such lists.
TREE = {"type": "array", "items": {"$ref": "#"}}
# Strings whose characters are counted.
COUNTED = {
    "type": "array",
    "items": {"type": "string", "pattern": "^[a-z]*$", "minLength": 17, "maxLength": 18},
}

DIFFERENT = {"type": "array", "items": {"type": "string", "pattern": "^[a-z]*$"}, "uniqueItems": True}
TUPLE = {
    "type": "array",
    "prefixItems": [{"type": "integer"}, {"enum": [5, 10, 20, *map(str, range(12))]}],
    "items": {"type": "array", "items": {"type": "integer"}},
    "uniqueItems": True,
}


def _row(name: str, schema: Any, *runs: tuple[int, ...], **options: Any) -> Row:
    return Row(f"JsonSchema {name}", "pushdown", lambda v: lk.JsonSchema(schema, v, **options), runs, masks=True)


ROWS: tuple[Row, ...] = (
    _row(
        "record",
        RECORD,
        (*ids(b"{", b'"', b"ab", b'":', b"10", b",", b'"', b"cat", b'":', b'"', b"dog", b'"', b"}"), EOS, PAD),
        ids(b"{", b'"', b"a", b"b", b'":', b"1", b"5"),
    ),
    _row("list", LIST, (*ids(b"[", b"1,", b"5", b"]"), EOS), ids(b"[", b"-", b"1"), closing=9),
    Row(
        "Intersection closing",
        "pushdown",
        lambda v: lk.Intersection((lk.BannedStrings(["5", "20"], v), lk.JsonSchema(LIST, v, closing=5))),
        ((*ids(b"[", b"1,", b"2", b"]"), EOS), ids(b"[", b"-", b"1")),
        masks=True,
    ),
    _row(
        "anything",
        True,
        (*ids(b"{", b'"', b"cat", b'":', b"[", b"1,", b"[", b"]", b"]", b"}"), EOS),
        ids(b'"', b"\xc3\xa9", b"dog", b" ", b'"'),
    ),
    _row(
        "tree",
        TREE,
        (*ids(b"[", b"\n", b" ", b"[", b"]", b",", b" ", b"[", b"]", b"\n", b"]"), EOS),
        ids(b"[", b"[", b"[", b"]"),
        whitespace="bounded",
        max_depth=4,
    ),
    _row(
        "counted",
        COUNTED,
        (*ids(b"[", b'"', *[b"abc"] * 5, b"a", b"b", b'"', b",", b'"', *[b"dog"] * 6, b'"', b"]"), EOS),
        ids(b"[", b'"', b"ab", b"cat"),
    ),
    _row(
        "counted, closing",
        {**LIST, "items": {"type": "string", "pattern": "^[a-z]*$", "minLength": 2, "maxLength": 64}},
        (*ids(b"[", b'"', *[b"abc"] * 5, b"a", b"b", b'"', b"]"), EOS),
        ids(b"[", b'"', b"ab", b"cat"),
        closing=30,
    ),
    Row(
        "JsonSchema different strings",
        "remembering",
        lambda v: lk.JsonSchema(DIFFERENT, v),
        (
            (*ids(b"[", b'"', b"ab", b'"', b",", b'"', b"a", b'"', b",", b'"', b"abc", b'"', b"]"), EOS, PAD),
            ids(b"[", b'"', b'"', b",", b'"', b"a"),
        ),
        masks=True,
        on_host=True,
    ),
    Row(
        "JsonSchema different items of a tuple",
        "remembering",
        lambda v: lk.JsonSchema(TUPLE, v),
        (
            (*ids(b"[", b"10", b",5", b",", b"[", b"]", b",", b"[", b"1,", b"1", b"]", b"]"), EOS),
            ids(b"[", b"5", b",", b"10", b",", b"[", b"1"),
        ),
        masks=True,
        on_host=True,
    ),
)
