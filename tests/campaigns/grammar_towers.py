"""Random towers of the rules of grammars, in GBNF and in Lark's syntax."""

from __future__ import annotations

import json

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.campaigns.tower import Tower, levels_and_end

__all__ = ["grammars", "lark_grammars"]

COUNTS = ("{2}", "{3}", "{0,2}", "{0,9}", "{1,30}", "{0,99}", "{2,}", "*", "+", "?")

# N is the level below, R the lowest level, T the top one, I the number of the level.
RULES = (
    "N N",
    "N? N",
    "N | N N",
    'N | "x"',
    'N* "a" N',
    '"a" N "b" N',
    '"(" N ")" N?',
    "N N?",
    'N "x" N',
    "N N N",
    "(N | T)?",
    'N "+" N | N',
    '"aI" N | "b" N',
    "N [a-z]*",
    "[^x]* N",
    '("aI" N)? R',
    "N | R N",
    'N "," N | "(" T ")"',
    "N? N? N?",
    "[a-z] N [0-9] N",
    '"a"* N* "b"*',
    'N "x"? | "xI" N',
    '"-"? N "-"? N',
    "(N N | N)+",
    '"é" N | "è" N',
)
ENDS = (
    '"a"?',
    '"a"',
    "[a-z]*",
    '""',
    '"a" | "ab"',
    "[^a]",
    '"(" T ")" | "b"',
    '"a" T? | "b"',
    "[a-z]{0,50}",
    ".",
    '"éa"?',
)

TERMINALS = (
    "N N",
    "N? N",
    "N | N N",
    'N | "x"',
    '"a" N "b" N',
    'N "x" N',
    "N /[a-z]*/",
    "(N N | N)+",
    "/[^x]*/ N",
    "N /x*?y/",
    "N~2",
    "N & /[a-z]*/",
    "N & ~/a*b/",
    '~N | "a"',
    "N N | /aI.*/",
    r"N /\w/",
    r"/\p{L}/ N | N",
    "N /a(?!b)/",
    '"aI"i N',
)
TERMINAL_ENDS = (
    "/[ab]/",
    "/a+/",
    "/a?b/",
    r"/\w+/",
    "/(a|b)*a(a|b){5}/",
    "/.*?x/",
    '"ab"',
    r"/[^\n]*/",
    "/a|ab/",
    r"/\b/",
)


def _numbered(lines: list[str], define: str) -> str:
    return "\n".join(f"r{i} {define} {line}" for i, line in enumerate(lines))


def _rule(template: str, level: int, lowest: int, prefix: str = "r") -> str:
    names = {"N": f"{prefix}{level + 1}", "R": f"{prefix}{lowest}", "T": f"{prefix}0", "I": f"{level}"}
    return "".join(names.get(character, character) for character in template)


@st.composite
def grammars(draw: DrawFn) -> Tower:
    levels, end = draw(levels_and_end(RULES, ENDS, 1000))
    count = draw(st.sampled_from(("", "", *COUNTS)))
    lines = [_rule(f"({template}){count}" if count else template, i, len(levels)) for i, template in enumerate(levels)]
    text = "root ::= r0\n" + _numbered([*lines, _rule(end, len(levels), len(levels))], "::=")
    return Tower("grammar", json.dumps({"grammar": text}))


@st.composite
def lark_grammars(draw: DrawFn) -> Tower:
    levels, end = draw(levels_and_end(TERMINALS, TERMINAL_ENDS, 1000))
    lines = [f"R{i}: {_rule(template, i, len(levels), 'R')}" for i, template in enumerate(levels)]
    lines.append(f"R{len(levels)}: {end}")
    used = draw(
        st.sampled_from(
            (
                "R0",
                "R0+",
                "(R0 | R1)+",
                "R0 R1",
                'R0 ("," R0)*',
                "(" + " | ".join(f"R{i}" for i in range(min(30, len(levels)))) + ")*",
            )
        )
    )
    ignored = draw(st.sampled_from(("", "", '\n%ignore " "', "\n%ignore /#[^x]*/", "\n%ignore R0")))
    lexer = draw(st.sampled_from(("longest", "contextual", "dynamic", None)))
    text = f"start: {used}\n" + "\n".join(lines) + ignored
    return Tower("grammar in Lark's syntax", json.dumps({"grammar": {"text": text, "syntax": "lark", "lexer": lexer}}))
