"""Languages that compose: free text with tags in it, text of a limited number of tokens, and special tokens."""

from __future__ import annotations

from typing import Any

from logitkit.languages import Language, any_text, dispatch, either, json_schema, regex, repeat, sequence, special, tag
from tests.rows.row import EOS, PAD, Row, ids

RECORD = json_schema({"type": "object", "properties": {"a": {"type": "integer"}, "dog": {"type": "string"}}})
TREE = json_schema({"type": "array", "items": {"$ref": "#"}})


def _row(name: str, language: Language, *runs: tuple[int, ...], **options: Any) -> Row:
    return Row(f"language {name}", "pushdown", lambda v: language.constraint(v, **options), runs, masks=True)


ROWS: tuple[Row, ...] = (
    _row(
        "calls",
        dispatch({"[[": tag("[[", RECORD, "]")}),
        (*ids(b"a", b"[", b"[", b"{", b'"', b"a", b'":', b"10", b"}", b"]", b"cat", b"[", b"]"), EOS, PAD),
        ids(b"\xc3", b"\xa9", b"[", b"[", b"{", b'"', b"dog", b'":', b'"'),
    ),
    _row(
        "a tree or a list",
        sequence(any_text(until="."), either(TREE, repeat(regex("[a-c]+"), 1, 3, separator=", "))),
        (*ids(b"cat", b".", b"[", b"[", b"]", b"]"), EOS),
        (*ids(b".", b"ab", b",", b" ", b"c"), EOS, PAD),
        max_depth=4,
    ),
    _row(
        "text with a budget",
        sequence(any_text(until="--", max_tokens=6), regex("[0-9]{2}")),
        (*ids(b"cat", b"dog", b"-", b"-", b"10"), EOS),
        ids(b"a", b"b", b"c", b"d", b"-"),
        closing=20,
    ),
    _row(
        "special tokens",
        sequence(any_text(until=special("<s>")), repeat(tag(special("<s>"), RECORD, "."), 0, 2)),
        (*ids(b"a"), 0, 0, *ids(b"{", b"}", b"."), EOS, PAD),
        (*ids(b"\n"), 0),
    ),
)
