"""The order in which Lark's lexers try terminals, against Lark."""

from __future__ import annotations

from typing import Any

import lark
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.grammars.lark.literals import COMMON
from logitkit.grammars.lark.parse import parse_lark
from logitkit.grammars.lark.terminals import Terminals
from logitkit.limits import DEFAULT_LIMITS
from tests.examples import examples

LITERALS = (
    *(
        '"a"',
        '"ab"i',
        r'"\n+"',
        r'"\""',
        '"a".."z"',
        r'"\x41".."Z"',
        "/a/",
        "/[a-z]+/i",
        r"/\d{2,3}\.\/\"/",
        r"/\x41\n\\/",
    ),
    *("/a|b*c/ms", r"/(?:ab)+?\b/", '"é"', r"/\u00e9.?/"),
)


@st.composite
def terminals(draw: st.DrawFn) -> str:
    """Definitions of terminals that use each other."""
    lines = []
    for place, name in enumerate(("A", "B", "C", "D")):
        item = st.sampled_from((*LITERALS, *("A", "B", "C")[:place]))
        part = st.one_of(
            item,
            item,
            st.tuples(item, st.sampled_from(("?", "*", "+", "~2", "~1..3"))).map("".join),
            st.lists(item, min_size=1, max_size=2).map(lambda some: f"[{' '.join(some)}]"),
            st.lists(item, min_size=2, max_size=3).map(lambda some: f"({' | '.join(some)})+"),
        )
        # Lark refuses a terminal that may be empty.
        option = st.tuples(item, st.lists(part, max_size=2).map(" ".join)).map(" ".join)
        options = st.lists(option, min_size=1, max_size=3)
        lines.append(f"{name}: {' | '.join(draw(options))}")
    return "\n".join(lines)


def _sizes(terminal: Any) -> tuple[int, int, int]:
    pattern = terminal.pattern
    return pattern.min_width, pattern.max_width, len(pattern.value)


def _measured(grammar: str) -> dict[str, tuple[int, int, int]]:
    draft = parse_lark(grammar, DEFAULT_LIMITS)
    built = Terminals(draft, DEFAULT_LIMITS)
    found = {d.name: built.measure(n) for n, d in enumerate(draft.definitions) if d.kind == "terminal"}
    return {name: (m.minimum, m.maximum, m.length) for name, m in found.items()}


@settings(max_examples=examples(800), deadline=None)
@given(terminals())
def test_lark_counts_alike(definitions: str) -> None:
    grammar = f"start: A B C D\n{definitions}\n"
    # The parser that splits texts in any way checks least.
    parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete", strict=False)
    expected = {terminal.name: _sizes(terminal) for terminal in parser.terminals}
    measured = _measured(grammar)
    assert {name: measured[name] for name in "ABCD"} == {name: expected[name] for name in "ABCD"}


def test_lark_counts_its_own_terminals_alike() -> None:
    grammar = f"start: {' '.join(COMMON)}\n" + "\n".join(f"%import common.{name}" for name in COMMON)
    parser = lark.Lark(grammar, parser="earley", lexer="dynamic_complete")
    assert _measured(grammar) == {terminal.name: _sizes(terminal) for terminal in parser.terminals}
