"""Constraints on text: what is never said, and what must come."""

from __future__ import annotations

import logitkit as lk
from tests.rows.row import BOS, EOS, PAD, Row, ids

ROWS: tuple[Row, ...] = (
    Row(
        "BannedStrings",
        "automaton",
        lambda v: lk.BannedStrings(["abc", "dog", "og\n", "é", "1,1"], v),
        ((*ids(b"a", b"b"), BOS, *ids(b"ab"), EOS, PAD), ids(b"cat", b"d", b"1", b"1,", b"\xc3")),
        masks=True,
    ),
    Row(
        "BannedStrings in any case",
        "automaton",
        lambda v: lk.BannedStrings(["Cat", "KISS", "aa"], v, ignore_case=True),
        (ids(b"c", b"a", b"k", b"i", b"s"), (*ids(b"a"), PAD, *ids(b"b", b"a\xc3"), EOS)),
        masks=True,
    ),
    Row(
        "BannedStrings by name",
        "automaton",
        lambda v: lk.BannedStrings(["<pad>", "dog"], v),
        ((*ids(b"a", b"b"), BOS, EOS, PAD), ids(b"cat", b"d", b"1")),
        masks=True,
    ),
    Row(
        "BannedStrings around a name",
        "automaton",
        lambda v: lk.BannedStrings(["a<pad>b", "dog", "1</s>"], v),
        ((*ids(b"a"), PAD, BOS, *ids(b"a", b"b"), EOS, PAD), ids(b"cat", b"d", b"1")),
        masks=True,
    ),
    Row(
        "ForcedPrefix",
        "automaton",
        lambda v: lk.ForcedPrefix("ab", v),
        # After the text everything is legal, which the test of legal runs takes for no mask.
        (ids(b"abc"), ids(b"a", b"b"), ids(b"ab")),
        masks=True,
    ),
    Row(
        "ForcedPrefix of a pattern",
        "automaton",
        lambda v: lk.ForcedPrefix("1", v, then=lk.Regex("(,[0-9])*", v)),
        ((*ids(b"1,", b"3"), EOS, PAD), ids(b"1", b",5")),
        masks=True,
    ),
    Row(
        "then",
        "automaton",
        lambda v: lk.then(None, lk.Regex("[0-9]+", v), "og-"),
        ((*ids(b"dog"), BOS, *ids(b"-", b"1", b"10"), EOS), ids(b"d", b"og", b"-0", b"5")),
        masks=True,
    ),
    Row(
        "then behind a name",
        "automaton",
        lambda v: lk.then(lk.BannedStrings(["ab"], v), lk.Choice(["cat", "c"], v), "<s>"),
        ((*ids(b"a", b"\xc3"), BOS, *ids(b"cat"), EOS, PAD), (BOS, *ids(b"c"), EOS)),
        masks=True,
    ),
    Row(
        "then around a name",
        "automaton",
        lambda v: lk.then(lk.BannedStrings(["ab"], v), lk.Choice(["cat", "c"], v), "\n<s>,"),
        ((*ids(b"a", b"\n"), BOS, *ids(b",", b"cat"), EOS, PAD), (*ids(b"\n", b"\n"), BOS, *ids(b",", b"c"), EOS)),
        masks=True,
    ),
    Row(
        "then behind a token",
        "automaton",
        lambda v: lk.then(lk.BannedStrings(["ab"], v), lk.Choice(["cat", "c"], v), BOS),
        ((*ids(b"a", b"\xc3"), BOS, *ids(b"cat"), EOS, PAD), (BOS, *ids(b"c"), EOS)),
        masks=True,
    ),
)
