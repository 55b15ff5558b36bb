"""Constraints by grammars, a regular one and those that nest."""

from __future__ import annotations

from typing import Any

import logitkit as lk
from tests.rows.row import EOS, PAD, Row, ids

LISTS = r"""
root ::= "[" (item ("," " "? item)*)? "]"
item ::= [a-z]+ | [0-9]+ | root
"""
PALINDROMES = r"""
root ::= "a" root "a" | "b" root "b" | "[" root? "]" | ""
"""
FEW_TOKENS = r"""
start: "[" (item | start) "]" ("-" start)?
item[max_tokens=2]: /[a-c]*[0-9]?/
"""
SUMS = """
start: item (/[-]/ item)*
item: NAME | "{" start "}" | "[" [start ("," start)*] "]" | "cat" item
NAME: /[0-9a-b]+/
"""


def _row(name: str, text: str, *runs: tuple[int, ...], kind: str = "pushdown", **options: Any) -> Row:
    return Row(f"Grammar {name}", kind, lambda v: lk.Grammar(text, v, **options), runs, masks=True)


ROWS: tuple[Row, ...] = (
    _row(
        "lists",
        LISTS,
        (*ids(b"[", b"cat", b",", b"[", b"10", b"]"), *ids(b"]"), EOS, PAD),
        ids(b"[", b"[", b"[", b"]],["),
        max_depth=5,
    ),
    _row(
        "sums",
        SUMS,
        (*ids(b"[", b"{", b"a", b"-0", b"}", b",", b"cat", b"10", b"]", b"-", b"1"), EOS),
        ids(b"[", b"[", b"[", b"1", b"]],[", b"ab"),
        syntax="lark",
        max_depth=6,
    ),
    _row(
        "lists that close",
        LISTS,
        (*ids(b"[", b"cat", b",", b"[", b"10", b"]"), *ids(b"]"), EOS, PAD),
        ids(b"[", b"[", b"[", b"]],["),
        max_depth=5,
        closing=9,
    ),
    _row(
        "palindromes",
        PALINDROMES,
        (*ids(b"a", b"ab", b"b", b"a"), *ids(b"a"), EOS, PAD),
        ids(b"[", b"[", b"]", b"]"),
        kind="branching",
        max_depth=6,
        configurations=4,
    ),
    _row(
        "once or twice",
        'root ::= "a" root "b" | "a" root "b" "b" | ""',
        (*ids(b"a", b"ab", b"b", b"b"), EOS),
        ids(b"a", b"a", b"a"),
        kind="branching",
        configurations=3,
    ),
    _row(
        "of few tokens",
        FEW_TOKENS,
        (*ids(b"[", b"[", b"a", b"ab", b"]", b"]"), EOS, PAD),
        ids(b"[", b"1", b"]", b"-", b"[", b"a"),
        syntax="lark",
        max_depth=4,
    ),
    _row(
        "regular",
        'root ::= ("ab" | "cat" | [0-9])+ "-"',
        (*ids(b"a", b"b", b"cat", b"10", b"-"), EOS),
        closing=12,
    ),
)
