"""Thinking budgets, and stops at loops."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from logitkit.vocabulary import Marker
from tests.rows.row import BOS, EOS, PAD, TEXT, Row, ids


def _budget(name: str, tokens: int, end: Any, start: Marker | None, *runs: tuple[int, ...], **options: Any) -> Row:
    # Logits that it does not force stay unchanged, including columns after the vocabulary.
    return Row(
        f"ThinkingBudget {name}",
        "thinking",
        lambda v: lk.ThinkingBudget(tokens, end, v, start, **options),
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
    _budget(
        "with several ends",
        2,
        ["og", "<s>", "-0"],
        None,
        (*ids(b"a", b"-0", b"a", b"b"), EOS),
        (*ids(b"a", b"b", b"o", b"g", b"c"), EOS, PAD),
        (*ids(b"a"), BOS, *ids(b"a"), EOS),
    ),
    _budget(
        "with a message",
        1,
        "<s>",
        "1",
        (*ids(b"1", b"\xc3", b"\xa9", b"\n", b"ab"), BOS, *ids(b"a"), EOS),
        (*ids(b"1,", b"\n", b"a", b"b"), BOS, EOS, PAD),
        message="\nab",
    ),
    _budget(
        "with a grace",
        1,
        "og",
        None,
        (*ids(b"a", b"b", b"-", b".", b"og", b"c"), EOS),
        (*ids(b"a", b"\n", b"o", b"g"), EOS),
        (*ids(b"a", b"a", b"a", b"a", b"og", b"."), EOS),
        grace=3,
    ),
    _budget(
        "with a minimum",
        4,
        [BOS, "og"],
        "1",
        (*ids(b"1", b"a", b"o", b"a", b"dog"), EOS),
        (*ids(b"1,", b"cat", b"b"), BOS, *ids(b"og"), EOS),
        min_tokens=2,
    ),
    _budget(
        "with pauses",
        1,
        "og",
        None,
        (BOS, *ids(b"a", b"b", b"-", b"a", b"og"), EOS),
        (*ids(b"[", b"1", b"2", b"1", b"]", b"a", b"o", b"g"), EOS, PAD),
        pause=[("<s>", "-"), ("[", "]")],
    ),
    _budget(
        "with everything",
        2,
        ["<s>", "og"],
        "1",
        (*ids(b"1,", b"a", b"a", b"a", b".", b"-", b"0"), BOS, *ids(b"b"), EOS),
        (*ids(b"1", b"{", b"1", b"2", b"3", b"}", b"a", b"b", b"c", b"a\xc3", b"\xa9", b"-0"), BOS, EOS),
        (*ids(b"1", b"a", b"b", b"\n", b"-0"), BOS, *ids(b"1", b"a", b"b", b"dog"), EOS, PAD),
        message="-0",
        grace=4,
        grace_at=[".", "\n"],
        min_tokens=1,
        pause=[("{", "}")],
    ),
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
