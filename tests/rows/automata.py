"""Constraints by a finite automaton."""

from __future__ import annotations

import logitkit as lk
from tests.rows.row import BOS, EOS, PAD, Row, ids

LIST = ids(b"1", b",", b"2", b",5"), ids(b"1,", b"3")

# States of any kind; and a token without text is as good as any other in a hand-written automaton.
_CYCLE: dict[tuple[int | str, int], int | str] = {
    (0, ids(b"a")[0]): 7,
    (0, ids(b"cat")[0]): 7,
    (7, ids(b"b")[0]): 0,
    (7, ids(b" ")[0]): 0,
    (0, BOS): "loop",
    ("loop", BOS): "loop",
    ("loop", ids(b"a")[0]): 7,
}


def _regex(name: str, pattern: str, *runs: tuple[int, ...]) -> Row:
    return Row(f"Regex {name}", "automaton", lambda v: lk.Regex(pattern, v), runs, masks=True)


ROWS: tuple[Row, ...] = (
    _regex("list", r"[0-9](,[0-9])*", *LIST),
    _regex("loop", r"[a-z]*", ids(b"a", b"b", b"cat", b"dog"), (EOS,)),
    _regex("characters", r"é+|€{2}", ids(b"\xc3", b"\xa9", b"\xc3\xa9"), ids(b"\xe2", b"\x82", b"\xac", b"\xe2")),
    _regex("date", r"[12][0-9]-[0-9]{2}", (*ids(b"1", b"0", b"-0", b"5"), EOS, PAD)),
    _regex("line", r"[^\n]*", ids(b"\xc3\xa9", b"10", b"-"), ids(b" ", b"ab")),
    Row(
        "Choice",
        "automaton",
        lambda v: lk.Choice(["cat", "dog", "abc", "a", "é"], v),
        ((*ids(b"cat"), EOS, PAD, PAD), ids(b"d", b"og"), ids(b"a", b"b"), (*ids(b"\xc3", b"\xa9"), EOS)),
        masks=True,
    ),
    Row(
        "Dfa",
        "automaton",
        lambda v: lk.Dfa(_CYCLE, start=0, accepting={0}, vocabulary=v),
        ((*ids(b"a", b"b", b"cat", b" "), EOS), (BOS, BOS, *ids(b"a", b" "))),
        masks=True,
    ),
)
