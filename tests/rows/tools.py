"""Constraints of turns with tools: calls in free text, reasoning with a budget, and an answer in place of a call."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from logitkit.tools import ToolsConstraint
from tests.rows.row import EOS, PAD, Row, ids

FORMAT = lk.ToolFormat(
    name="row",
    call_begin="[[",
    name_end="-",
    call_end="]",
    separator=",",
    trigger="[[",
    whitespace="compact",
    reasoning_end="--",
)
TREE = {"type": "object", "properties": {"a": {"type": "integer"}, "dog": {"$ref": "#"}}}
TOOLS = [{"name": "cat", "parameters": TREE}, {"name": "dog"}]


def _row(name: str, *runs: tuple[int, ...], **options: Any) -> Row:
    return Row(
        f"ToolsConstraint {name}",
        "pushdown",
        lambda v: ToolsConstraint(TOOLS, v, format=FORMAT, **options),
        runs,
        masks=True,
    )


ROWS: tuple[Row, ...] = (
    _row(
        "auto",
        (
            *ids(b"a", b"[", b"[", b"cat", b"-", b"{", b'"', b"a", b'":', b"10", b"}", b"]", b","),
            *ids(b"[", b"["),
            *ids(b"d"),
        ),
        (*ids(b"\xc3", b"\xa9", b"[", b"[", b"dog", b"-", b"{", b"}", b"]"), EOS, PAD),
    ),
    _row(
        "reasoning",
        (*ids(b"a", b"b", b"-", b"-", b"[", b"[", b"dog", b"-", b"{", b"}", b"]"), EOS),
        reasoning=5,
        choice="required",
        closing=30,
    ),
    _row(
        "answer",
        (*ids(b"10"), EOS, PAD),
        ids(b"[", b"[", b"dog", b"-", b"{"),
        answer={"type": "integer"},
        parallel=False,
    ),
    _row(
        "order",
        (
            *ids(b"[", b"[", b"dog", b"-", b"{", b"}", b"]", b",", b"[", b"[", b"c"),
            *ids(b"a", b"t", b"-", b"{", b"}", b"]"),
            EOS,
            PAD,
        ),
        ids(b"[", b"[", b"d", b"o", b"g", b"-", b"{"),
        unique=True,
        allowed_after={"cat": ["dog"]},
        parallel_calls=(2, None),
    ),
)
