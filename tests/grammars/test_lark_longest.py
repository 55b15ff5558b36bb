"""Longest match, against Lark's LALR parser with its contextual and its basic lexer.

Every text that is accepted must be one of the contextual lexer. That lexer takes keywords for names where no keyword may stand,
so completeness is judged by the basic lexer, which does not: it must not accept more, unless one character is too short a
lookahead.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import lark
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.grammars.dfa import pushdown_dfa
from logitkit.compiler.grammars.rules import Rules
from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.grammars.lark import read_lark
from logitkit.limits import DEFAULT_LIMITS
from tests.examples import examples
from tests.grammars.lark_lexers import parsers, reads
from tests.grammars.own_grammars import OwnGrammar, own_grammars
from tests.grammars.pushdowns import accepts as dfa_accepts
from tests.grammars.recogniser import accepts

RULES = ["start", "x", "y"]
KEYWORDS = ['"if"', '"in"', '"do"', "NOT"]
OPERATORS = ['"+"', '"-"', '"<"', '"<="', '".."', '"("', '")"', '","']
TEXTS = {
    "NAME": ["a", "if", "ifs", "i", "x1", "nota", "not"],
    "NUMBER": ["1", "12", "1.5"],
    "STRING": ['""', '"if"', '"a b"'],
    "NOT": ["not"],
    **{literal: [literal[1:-1]] for literal in [*KEYWORDS, *OPERATORS] if literal.startswith('"')},
}
# Any split of their texts takes more work than the limits allow.
LARGE = {"lua.lark", "sql_select.lark"}
INTEGERS = "/[0-9]+/"
DECIMALS = r"/[0-9]+(\.[0-9]+)?/"
IGNORED = ["", '%ignore " "', "%ignore /[ ]+/", "%ignore /[ ]+/\n%ignore /--[^+]*/"]

Alternatives = Sequence[Sequence[str]]


@st.composite
def grammars(draw: st.DrawFn, number: str) -> tuple[str, Mapping[str, Alternatives]]:
    """A grammar with names, numbers, keywords, operators and ignored terminals; and its rules."""
    terminal = st.sampled_from(["NAME", "NAME", "NUMBER", "STRING", *KEYWORDS, *OPERATORS])
    alternative = st.tuples(
        st.lists(terminal, min_size=1, max_size=1), st.lists(st.one_of(terminal, st.sampled_from(RULES)), max_size=3)
    ).map(lambda parts: [*parts[0], *parts[1]])
    left = st.lists(st.one_of(terminal, st.sampled_from(RULES)), min_size=1, max_size=3)
    rules = {name: draw(st.lists(st.one_of(alternative, alternative, left), min_size=1, max_size=4)) for name in RULES}
    lines = [f"{name}: {' | '.join(map(' '.join, alternatives))}" for name, alternatives in rules.items()]
    name = draw(st.sampled_from(["/[a-z]+/", "/[a-z_][a-z0-9_]*/"]))
    lines += [f"NAME: {name}", f"NUMBER: {number}", r'STRING: /"[^"]*"/', 'NOT: "not"', draw(st.sampled_from(IGNORED))]
    return "\n".join(lines) + "\n", rules


@st.composite
def texts(draw: st.DrawFn, rules: Mapping[str, Alternatives]) -> str:
    """A text of the rules, with blanks in some places and other texts of the terminals in a few."""
    todo, parts = ["start"], list[str]()
    # Rules may have no end.
    for _ in range(200):
        if not todo or len(parts) > 20:
            break
        symbol = todo.pop()
        if symbol in rules:
            fewest = sorted(rules[symbol], key=lambda a: sum(part in rules for part in a))
            options = fewest if len(parts) + len(todo) < 8 else fewest[:1]
            todo += reversed(draw(st.sampled_from(options)))
        else:
            parts.append(draw(st.sampled_from(TEXTS[symbol])) + draw(st.sampled_from(["", "", " "])))
    return "".join(parts)


def _judge(grammar: str, lexer: Literal["longest", "dynamic"] | None = None) -> Callable[[str], bool] | None:
    """Return whether a text is accepted; None for grammars that are refused for their size or for a rule without an end."""
    try:
        rules = read_lark(grammar, lexer=lexer)
        dfa = pushdown_dfa(Rules(tuple([rule.body for rule in rules.rules]), rules.start), DEFAULT_LIMITS)
    except PatternTooLarge:
        return None
    except GrammarError as error:
        if "no finite text" in error.reason:
            return None
        if "contradict the text that must follow" in error.reason:
            # Two names without anything between them are one name.
            return lambda text: False
        raise
    return lambda text: dfa_accepts(dfa, text.encode())


@pytest.mark.parametrize("number", [INTEGERS, DECIMALS], ids=["integers", "decimals"])
@settings(max_examples=examples(120), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_lark_splits_a_text_in_the_same_way(number: str, data: st.DataObject) -> None:
    grammar, rules = data.draw(grammars(number))
    found = parsers(grammar)
    assume(found is not None)
    judge = _judge(grammar)
    assume(judge is not None)
    assert found is not None
    assert judge is not None
    contextual, basic = found
    for _ in range(8):
        text = data.draw(texts(rules))
        accepted = judge(text)
        if accepted:
            assert reads(contextual, text), text
        elif reads(basic, text):
            # After a digit and a dot, a lexer goes back if no digit follows.
            assert number == DECIMALS, text
            assert re.search(r"[0-9]\.(?![0-9])", text), text


LANGUAGE = r"""
start: stat*
stat: "if" sum "then" stat | NAME "=" sum ";" | "let" NAME ";"
sum: [sum ("+" | "-")] item
item: NAME | NUMBER [".." NUMBER] | STRING
NAME: /[a-z]+/
NUMBER: /[0-9]+(\.[0-9]+)?/
STRING: /".*?"/
COMMENT: /--[^\n]*\n/
%ignore /\s+/
%ignore COMMENT
"""
CASES = [
    ("a=b;", True, True),
    ("let a;", True, True),
    ("leta;", False, True),
    ("leta=b;", True, True),
    ("if a then b=c;", True, True),
    ("ifa then b=c;", False, True),
    ("if=c;", False, True),
    ("iff=c;", True, True),
    ("let if;", False, True),
    ('if"a"then b=c;', True, True),
    ("a=1..2;", False, True),
    ("a=1.5 .. 2;", True, True),
    ("a=b- -c;", False, False),
    ("a=b--c;\n-c;", True, True),
    ("a=b-c;--\n", True, True),
    ('a="b"+"c";', True, True),
    ("a=b  ;", True, True),
    ("a=1 2;", False, False),
    ("a=12;", True, True),
    ("if 1then b=c;", True, True),
    ("if 1thenb=c;", True, True),
]


@pytest.mark.parametrize(("text", "longest", "dynamic"), CASES)
def test_a_lexer_decides_how_a_text_is_split(text: str, longest: bool, dynamic: bool) -> None:
    accepted = [accepts(read_lark(LANGUAGE, lexer=lexer), text) for lexer in (None, "longest", "dynamic")]
    assert accepted == [longest, longest, dynamic]
    assert reads(lark.Lark(LANGUAGE, parser="lalr"), text) >= longest


@pytest.mark.parametrize(
    ("grammar", "text", "accepted"),
    [
        # Nothing that starts a text competes with "x", and after it only NAME stands.
        ('start: "x" NAME\nNAME: /[a-z]+/', "xab", True),
        ('start: "x" NAME | NAME\nNAME: /[a-z]+/', "xab", True),
        ('start: "x" NAME "." | NAME\nNAME: /[a-z]+/', "xab.", False),
        # An operator does not end where another terminal goes on.
        ('start: "*" " " TEXT | TEXT "."\nTEXT: /[*a ]+/', "* a", False),
        ('start: "*" TEXT " " | TEXT "."\nTEXT: /[*a ]+/', "*a.", True),
        ('start: "<" "=" | "<=" ">"', "<=", False),
        ('start: "<" "=" | "<=" ">"', "<=>", True),
        ('start: NUM "." NUM | FLOAT "x"\nNUM: /[0-9]+/\nFLOAT: /[0-9]+\\.[0-9]+/', "1.5", False),
        ('start: NUM "." NUM | FLOAT "x"\nNUM: /[0-9]+/\nFLOAT: /[0-9]+\\.[0-9]+/', "1.5x", True),
        # A lexer comes back to what it has read of a longer terminal that does not end.
        ('start: NUM ".." NUM | FLOAT "x"\nNUM: /[0-9]+/\nFLOAT: /[0-9]+\\.[0-9]+/', "1..5", True),
        ('start: NUM "." NAME | FLOAT "x"\nNUM: /[0-9]+/\nFLOAT: /[0-9]+\\.[0-9]+/\nNAME: /[a-z]+/', "1.a", True),
        # A terminal that may only stand in another place does not matter, although both follow the same terminal.
        ('start: " " A " " B\nA: /[ab]/\nB: /[abc]+/', " a b", True),
        ('start: "(" "-" A ")" "-" B\nA: /a+/\nB: /[->]+/', "(-a)->", True),
        # Of terminals with the same text, the parser takes the one that it expects next; a word is a keyword.
        ("start: A ':' | B ';'\nA: /[a-z]+/\nB: /[a-z.]+/".replace("'", '"'), "a;", True),
        ("start: A ':' | B ';'\nA: /[a-z]+/\nB: /[a-z.]+/".replace("'", '"'), "a:", True),
        # Higher priorities come first, even with a shorter text.
        ('start: WORD "1" | NAME "."\nWORD.2: /[a-z]+/\nNAME: /[a-z]+[0-9]|_/', "a1", True),
        ('start: WORD "1" | NAME "."\nWORD.2: /[a-z]+/\nNAME: /[a-z]+[0-9]|_/', "a1.", False),
        ('start: WORD "1" | NAME "."\nWORD.2: /[a-z]+/\nNAME: /[a-z]+[0-9]/', "a1.", None),
        ('start: WORD "1" | NAME "."\nWORD: /[a-z]+/\nNAME.2: /[a-z]+[0-9]/', "a1.", True),
        ('start: WORD "1" | NAME "."\nWORD: /[a-z]+/\nNAME.2: /[a-z]+[0-9]/', "a1", False),
        # A string in a rule is the terminal with that text, with its priority.
        ('start: "if" "x" | NAME "."\nIF.2: "if"\nNAME: /[a-z]+/', "ifx", True),
        # `SELECT` in any case comes before names, and so does a terminal that is one string.
        ('start: ("select"i | NAME) "."\nNAME: /[a-zA-Z]+/', "Select.", True),
        ('start: "select"i NAME | NAME "."\nNAME: /[a-zA-Z]+/', "Select.", False),
        ('start: IF "x" | NAME "."\nIF: "if"\nNAME: /[a-z]+/', "if.", False),
        ('start: IF "," | NAME "."\nIF: "if"\nNAME.1: /[a-z]+|_/', "if.", None),
        ('start: IF "," | NAME "."\nIF.1: "if"\nNAME: /[a-z]+/', "if,", True),
        # Neither a name nor a longer keyword has these keywords as texts, but they go on after them.
        ('start: "do" NAME "!" | NAME "."\nNAME: /[a-ce-z]+|do?[a-np-z][a-z]*|do[a-z]+/', "dox!", False),
        ('start: "or"i NAME | "order"i "by"i NAME\nNAME: /[a-z]+/', "ORderby", False),
        ('start: "or"i NAME | "order"i "by"i NAME\nNAME: /[a-z]+/', "ORderBYa", True),
        ('start: "or"i NAME | "order"i "by"i NAME\nNAME: /[a-z]+/', "ORa", True),
        # An assertion at the end and the longest match restrict the same end.
        (r"start: A /[ab.]/" + "\n" + r"A: /a+(?!\.)/", "aab", True),
        (r"start: A /[ab.]/" + "\n" + r"A: /a+(?!\.)/", "aa.", False),
        (r"start: A /[ab.]/" + "\n" + r"A: /a+(?!\.)/", "aaa", False),
        ('start: A "b" "c"\nA: /a(bc)?/', "abc", False),
        ("start: NAME <|end|> NAME\nNAME: /[a-z]+/", "ab", False),
    ],
)
def test_longest_match_by_example(grammar: str, text: str, accepted: bool | None) -> None:
    if accepted is None:
        with pytest.raises(GrammarError, match="others match all of its texts"):
            read_lark(grammar)
    else:
        assert accepts(read_lark(grammar), text) == accepted


@pytest.mark.parametrize(
    ("grammar", "lexer"),
    [
        (g, lexer)
        for g in own_grammars("lark")
        for lexer in ("longest", "dynamic")
        if lexer == "longest" or g.name not in LARGE
    ],
    ids=str,
)
def test_the_grammars_of_the_project_have_their_texts(
    grammar: OwnGrammar, lexer: Literal["longest", "dynamic"]
) -> None:
    judge = _judge(grammar.text, lexer)
    assert judge is not None
    assert [(text, judge(text)) for text, _ in grammar.texts] == grammar.texts


def test_many_keywords_are_read_or_refused() -> None:
    words = " | ".join(f'"k{i}"' for i in range(300))
    assert len(read_lark(f"start: (NAME | {words})*\nNAME: /[a-z][a-z0-9]*/\n").rules) == 302
    names = "".join(f"N{i}: /[a-z]{{{i + 1},300}}/\n" for i in range(200))
    words = " | ".join([*(f'"{"k" * (i + 1)}"' for i in range(200)), *(f"N{i}" for i in range(200))])
    with pytest.raises(PatternTooLarge):
        read_lark(f"start: ({words})*\n{names}")


def test_an_assertion_at_the_end_of_one_option_keeps_the_others() -> None:
    vocabulary = lk.Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_ids=[256])
    last = lk.Grammar('start: A "x"?\nA: /a\\Z|bc/', vocabulary, syntax="lark")
    assert [text for text in ("a", "ax", "b", "bc", "bcx") if last.matches(text)] == ["a", "bc", "bcx"]
    with pytest.raises(GrammarError, match="the terminal A must be followed by a character"):
        lk.Grammar('start: A "!"?\nA: /a(?=!)|b/', vocabulary, syntax="lark")
