"""Thinking budgets, and stops at loops."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from logitkit.vocabulary import Marker
from tests.rows.row import BOS, EOS, PAD, TEXT, Row, ids


def _budget(name: str, tokens: int, end: Marker, start: Marker | None, *runs: tuple[int, ...]) -> Row:
    # Logits that it does not force stay unchanged, including columns after the vocabulary.
    return Row(
        f"ThinkingBudget {name}",
        "thinking",
        lambda v: lk.ThinkingBudget(tokens, end, v, start),
        runs,
        masks=True,
        sized=False,
    )


ROWS: tuple[Row, ...] = (
    _budget("of three", 3, "-0\n", None, (*ids(b"a", b"-", b"-0", b"\n"), EOS), (*ids(b"1", b"-0", b"\n", b"a"), EOS)),
    _budget("of none", 0, "abc", None, (*ids(b"ab", b"c", b"a"), EOS, PAD), ids(b"a", b"b", b"c", b"1")),
    _budget("of many", 99, "éa", "cat", *TEXT, (*ids(b"cat", b"b", b"\xc3", b"\xa9", b"a"), EOS)),
    _budget("by id", 1, BOS, "1", (*ids(b"1,", b"a"), BOS, *ids(b"a"), EOS), (*ids(b"10"), EOS, PAD)),
    _budget("by name", 1, "<s>", "1", (*ids(b"1,", b"a"), BOS, *ids(b"a"), EOS), (*ids(b"10"), EOS, PAD)),
    _budget("around a name", 2, "\n<s>a", "1", (*ids(b"1,", b"\n"), BOS, *ids(b"a"), EOS), (*ids(b"10", b"b"), EOS)),
    _budget("from id to text", 1, "og", BOS, (BOS, *ids(b"a", b"og"), BOS), (*ids(b"a"), BOS, *ids(b"b", b"o", b"g"))),
    _budget("between equals", 1, "--", "--", ids(b"-", b"-", b"a", b"-", b"-"), ids(b"-", b"-", b"-", b"-", b"a")),
)


def _loops(name: str, *runs: tuple[int, ...], **arguments: Any) -> Row:
    # Rows that it does not end stay unchanged, including columns after the vocabulary.
    return Row(f"LoopStop {name}", "loops", lambda v: lk.LoopStop(v, **arguments), runs, masks=True, sized=False)


ROWS += (
    _loops(
        "of three",
        *TEXT,
        (*ids(b"a", b"a", b"a"), EOS, PAD),
        (*ids(b"1", b"2", b"1", b"2", b"1", b"2"), EOS),
        max_period=5,
    ),
    _loops("of two", (*ids(b"cat", b"dog", b"cat", b"dog"), EOS, EOS), count=2, max_period=2, min_period=2),
    _loops("late", (*ids(b"a", b"a", b"a", b"a"), EOS), (*ids(b"a", b"b", b"a", b"b"), EOS), count=2, min_tokens=4),
    _loops("by default", *TEXT, (*ids(b"1,", b"1,", b"1,"), EOS, PAD)),
    _loops(
        "of many", *TEXT, ids(b"a", b"a", b"a"), count=65536, max_period=4096, min_period=4096, min_tokens=2**31 - 1
    ),
    _loops(
        "in reasoning",
        (*ids(b"a", b"a", b"og", b"b", b"b"), EOS),
        (*ids(b"1", b"1", b"o"), *ids(b"g")),
        count=2,
        max_period=3,
        then="og",
    ),
    _loops(
        "in sections",
        (*ids(b"1", b"a", b"a"), BOS, *ids(b"b", b"b"), EOS, PAD),
        (*ids(b"a", b"a"), EOS),
        (*ids(b"1", b"2", b"2"), BOS, *ids(b"1", b"a", b"b"), EOS),
        count=2,
        max_period=2,
        then="<s>",
        start="1",
    ),
)
