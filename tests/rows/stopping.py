"""Stops."""

from __future__ import annotations

import re
from collections.abc import Sequence

import logitkit as lk
from tests.rows.row import BOS, EOS, PAD, TEXT, Row, ids


def _stops(
    name: str,
    stops: Sequence[str | bytes | int | re.Pattern[str]],
    *runs: tuple[int, ...],
    include_prompt: bool = False,
) -> Row:
    # Rows that it does not end stay unchanged, including columns after the vocabulary.
    return Row(
        f"StopStrings {name}",
        "stops",
        lambda v: lk.StopStrings(stops, v, include_prompt),
        (*runs, *TEXT),
        masks=True,
        sized=False,
    )


ROWS: tuple[Row, ...] = (
    _stops("texts", ["catog", "11\n"], (*ids(b"1", b"1", b"\n"), EOS, PAD), (*ids(b"cat", b"og"), EOS, EOS)),
    _stops("overlapping", ["aab", "ab-", "b-"], (*ids(b"a", b"a", b"ab"), EOS), (*ids(b"c", b"b"), BOS, *ids(b"-"))),
    _stops("bytes", [b"\xa9\xc3", "€"], (*ids(b"\xe2", b"\x82\xac"), EOS), ids(b"\xe2", b"\x82", b"\xac")),
    _stops("ids", [BOS, ids(b"20")[0]], (*ids(b"a"), BOS, EOS, PAD), (*ids(b"20"), EOS)),
    _stops("special", ["<s>", "a,"], (*ids(b"a"), BOS, EOS, PAD), (*ids(b"a", b","), EOS)),
    _stops(
        "around a name",
        ["a<s>b", "<pad>,"],
        (*ids(b"1", b"a"), BOS, *ids(b"b"), EOS),
        (*ids(b"a"), PAD, *ids(b","), EOS),
    ),
    _stops("EOS", [EOS, "-0"], (*ids(b"a"), EOS, PAD, PAD), (*ids(b"1", b"-0"), EOS)),
    _stops(
        "patterns",
        [re.compile("[0-9]{2}[€é],"), "og,", re.compile("x?b{1,2}-", re.IGNORECASE), BOS],
        (*ids(b"1", b"10", b"\xc3", b"\xa9", b","), EOS, PAD),
        (*ids(b"b", b"b", b"-"), EOS),
    ),
    _stops("prompt", ["aa", "1,", "og,", BOS], (*ids(b"b", b"1,"), EOS), include_prompt=True),
)
