"""Constraints whose texts nest."""

from __future__ import annotations

import logitkit as lk
from logitkit.compiler.nested_grammars.nested_grammar import NestedGrammar, NestedRule
from logitkit.patterns import Alternate, Call, Node, parse
from tests.automata.nested_grammars import Nested, listed, sequence, text
from tests.rows.row import EOS, PAD, Row, ids

VALUE: Node = Alternate((parse("[0-9]+"), Call(0), Call(1)))

# Lists of numbers, lists and objects; an object is a word and perhaps a value.
LISTS = NestedGrammar(
    VALUE,
    (
        NestedRule("[", sequence(listed(VALUE), text("]"))),
        NestedRule("{", sequence(parse("[a-z]+"), Alternate((text(""), sequence(text("-"), VALUE))), text("}"))),
    ),
)

RUNS = (
    (*ids(b"[", b"[", b"[", b"1", b"]],[", b"]", b"]"), EOS),
    (*ids(b"{", b"cat", b"-", b"[", b"]", b"}"), EOS, PAD),
    ids(b"[", b"1,", b"[", b"{", b"a"),
)


# Characters of whose bytes each is a token, in four ways after the same first byte.
SPELLED = "é€⩩⩬⬂"


def _nested(name: str, max_depth: int, closing: bool | int = False, runs: tuple[tuple[int, ...], ...] = RUNS) -> Row:
    return Row(
        f"Nested {name}",
        "pushdown",
        lambda v: Nested(LISTS, v, max_depth, closing),
        runs,
        masks=True,
    )


ROWS: tuple[Row, ...] = (
    _nested("lists", 32),
    _nested("shallow", 2, runs=(ids(b"[", b"[", b"1", b"]", b"]"), ids(b"[", b"{", b"a", b"}", b","))),
    _nested("closing", 8, closing=True),
    _nested("short", 8, closing=9, runs=(*RUNS[:1], ids(b"1", b"10", b"5"))),
    Row(
        "Nested date",
        "pushdown",
        lambda v: Nested(NestedGrammar(parse("[0-9]{2}-[0-9]+")), v, closing=6),
        ((*ids(b"1", b"0", b"-0", b"5"), EOS, PAD), ids(b"10", b"-", b"10", b"5")),
        masks=True,
    ),
    Row(
        # Without calls for the bytes inside of characters, it would have more states than are allowed.
        "Regex called characters",
        "pushdown",
        lambda v: lk.Regex(f"[a{SPELLED}]{{1,90}}(-[0{SPELLED}]{{1,9}})*", v, limits=lk.Limits(states=500)),
        (
            (*ids(b"a", b"\xe2", b"\x82", b"\xac", b"-", b"\xc3\xa9"), EOS, PAD),
            ids(b"a\xc3", b"\xa9\xc3", b"\xa9", b"-0"),
        ),
        masks=True,
    ),
)
