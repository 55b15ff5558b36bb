"""Constraints by structural tags: finite ones, those with a schema that nests, and tokens."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from tests.rows.row import BOS, EOS, PAD, Row, ids

CALL = {
    "type": "tag",
    "begin": "dog",
    "content": {"type": "json_schema", "json_schema": {"type": "array", "items": {"type": "integer"}}},
    "end": "-",
}


def _row(name: str, document: dict[str, Any], *runs: tuple[int, ...], **options: Any) -> Row:
    whole = {"type": "structural_tag", "format": document}
    return Row(f"StructuralTag {name}", "pushdown", lambda v: lk.StructuralTag(whole, v, **options), runs, masks=True)


ROWS: tuple[Row, ...] = (
    _row(
        "tag",
        {"type": "tag", "begin": "cat", "content": {"type": "any_text"}, "end": ["og", "-"]},
        (*ids(b"cat", b"a", b"\xc3\xa9", b"b", b"-"), EOS, PAD),
        ids(b"c", b"a", b"t", b"d", b"og"),
    ),
    _row(
        "calls",
        {"type": "triggered_tags", "triggers": ["do"], "tags": [CALL], "excludes": ["cat"]},
        (*ids(b"a", b"dog", b"[", b"1,", b"5", b"]", b"-", b"b"), BOS, EOS),
        ids(b"d", b"og", b"[", b"]", b"-", b"1"),
    ),
    _row(
        "tokens",
        {
            "type": "token_triggered_tags",
            "trigger_tokens": ["<s>"],
            "tags": [{**CALL, "begin": {"type": "token", "token": "<s>"}}],
            "at_least_one": True,
        },
        (BOS, *ids(b"[", b"1", b"]", b"-", b"a"), EOS, PAD),
        (BOS, *ids(b"[", b"]", b"-")),
        closing=9,
    ),
)
