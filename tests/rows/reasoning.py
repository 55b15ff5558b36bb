"""Thinking budgets."""

from __future__ import annotations

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
