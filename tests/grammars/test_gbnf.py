"""Each construct of GBNF, against Python's `re`; special tokens, places, and large grammars."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.compiler.bytes.special_tokens import OTHERS, WHOLE
from logitkit.errors import GrammarError, LogitkitError, PatternTooLarge
from logitkit.grammars.gbnf import read_gbnf
from logitkit.limits import Limits
from tests.grammars.rule_matcher import matches

TEXTS = ["".join(letters) for size in range(5) for letters in itertools.product("ab", repeat=size)]


def pairs() -> st.SearchStrategy[tuple[str, str]]:
    """Bodies in GBNF with the same language as a pattern."""
    leaves = st.sampled_from(
        [
            ('"a"', "a"),
            ('"ab"', "(?:ab)"),
            ('""', ""),
            ("[ab]", "[ab]"),
            ("[^a]", "[^a]"),
            ("[a-]", "[a-]"),
            (r'"\x61\u0062"', "(?:ab)"),
            (r"[\U00000061-\x62]", "[ab]"),
            (".", "(?s:.)"),
            ("b", "b?"),
        ]
    )
    signs = st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "{ 1 , 3 }", "{0}"])

    def grow(inner: st.SearchStrategy[tuple[str, str]]) -> st.SearchStrategy[tuple[str, str]]:
        return st.one_of(
            st.tuples(inner, inner).map(lambda two: (f"({two[0][0]} {two[1][0]})", f"(?:{two[0][1]}{two[1][1]})")),
            st.tuples(inner, inner).map(
                lambda two: (f"({two[0][0]} |\n# c\n{two[1][0]})", f"(?:{two[0][1]}|{two[1][1]})")
            ),
            st.tuples(inner, signs).map(
                lambda one: (f"({one[0][0]}){one[1]}", f"(?:{one[0][1]}){re.sub(' ', '', one[1])}")
            ),
            inner.map(lambda one: (f"( | {one[0]})", f"(?:|{one[1]})")),
        )

    return st.recursive(leaves, grow, max_leaves=6)


@given(pairs())
@settings(max_examples=200, deadline=None)
def test_regular_grammars_match_what_re_matches(pair: tuple[str, str]) -> None:
    gbnf, pattern = pair
    grammar = read_gbnf(f'root ::= {gbnf}\nb ::= "b"?')
    for text in (*TEXTS, "-", "\n"):
        assert matches(grammar, text) == (re.fullmatch(pattern, text) is not None), text


def test_lines_continue_as_in_xgrammar() -> None:
    grammar = read_gbnf('root ::= "a"\n  | "b" # c\n\n  b\nb ::= "c"\n')
    assert [text for text in ("a", "bc", "b", "c") if matches(grammar, text)] == ["a", "bc"]


def test_special_tokens_are_symbols() -> None:
    grammar = read_gbnf('root ::= <think> !</think>* </think> <[7]> "a"')
    assert grammar.tokens == ("<think>", "</think>", 7, OTHERS)
    assert matches(grammar, [0, "x", 0, "é", 2, 1, 2, "a"])
    assert matches(grammar, [0, 1, 2, "a"])
    assert not matches(grammar, [0, 1, 1, 2, "a"])
    assert not matches(grammar, [0, "x", 2, "a"])


def test_a_negated_token_alone_excludes_one_token() -> None:
    grammar = read_gbnf("root ::= ( !<[3]>\n + <[3]>)")
    assert matches(grammar, ["a", "b", 0])
    assert not matches(grammar, [0])


@pytest.mark.parametrize("content", ["(!<[11]>)*", "( ( !<[11]>\n) )+", "(!<[11]>+)?"])
def test_a_negated_token_may_be_repeated_in_parentheses(content: str) -> None:
    # llama.cpp's own tests write such a grammar.
    grammar = read_gbnf(f"root ::= <[10]> {content} <[11]>")
    assert matches(grammar, [0, "a", "é", 1])
    assert not matches(grammar, [0, 1, 1])


@pytest.mark.parametrize("content", ["!<[11]>", "(!<[11]>)", '("a" !<[11]>)*', "!<[11]>{2,}", '(!<[11]> | "a")*'])
def test_a_negated_token_that_is_not_repeated_alone_is_one_whole_token(content: str) -> None:
    grammar = read_gbnf(f"root ::= <[10]> {content} <[11]>")
    assert grammar.tokens == (10, 11, OTHERS, WHOLE)
    assert matches(grammar, [0, "a", 3, "a", 3, 1]) == ("a" in content)
    assert not matches(grammar, [0, "a", "b", 1])


@pytest.mark.parametrize(
    ("escape", "text"), [(r"\'", "'"), (r"\?", "?"), (r"\a\b\e\f\v\0", "\a\b\x1b\f\v\0"), (r"\x412", "A2")]
)
def test_escapes_of_xgrammar(escape: str, text: str) -> None:
    assert matches(read_gbnf(f'root ::= "{escape}"'), text)


def test_escaped_braces_are_braces() -> None:
    grammar = read_gbnf(r'root ::= "\{" [^\{\}]+ "\}" [\{\}]')
    braces = [text for text in ("{a}}", "{a}{", "{a}a", "{{}}", "{a}\\", "\\{a}}") if matches(grammar, text)]
    assert braces == ["{a}}", "{a}{"]


def test_another_start_and_unused_rules() -> None:
    grammar = read_gbnf('root ::= "a"\nitem ::= "b"\nc ::= c2\nc2 ::= "c"', start="item")
    assert grammar.rules[grammar.start].name == "item"
    assert grammar.warnings == ("the rules 'root', 'c' and 'c2' are not used",)


def test_places_are_those_of_the_text() -> None:
    text = '\ufeff# c\nroot ::= b | # d\n  "x"   \n\nb ::= ("y"\n)\n'
    assert [text[rule.begin : rule.end] for rule in read_gbnf(text).rules] == [
        'root ::= b | # d\n  "x"',
        'b ::= ("y"\n)',
    ]


@pytest.mark.parametrize(
    "text",
    [
        'root ::= "' + "a" * 49_000 + '"',
        "\n".join(f'r{i} ::= "a" r{i + 1}' for i in range(10_000)) + '\nr10000 ::= "b"\nroot ::= r0',
        "root ::= " + "(" * 10_000 + '"a"' + ")" * 10_000,
        'root ::= (((("a"{0,99}){0,99}){0,99}){0,99}){0,99}',
        "root ::= " + " ".join(f"<[{i}]> !<[{i}]>*" for i in range(500)),
    ],
    ids=["long text", "many rules", "many groups", "nested counts", "many tokens"],
)
def test_large_grammars_are_read(text: str) -> None:
    assert read_gbnf(text).start >= 0


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (
            "root ::= " + "(" * 10_000 + '"a"' + ")?" * 10_000,
            GrammarError,
            "more than 300 groups, alternatives and rep",
        ),
        ('root ::= "' + "a" * 1_000_000 + '"', PatternTooLarge, "more than 50000 states"),
        ("root ::= " + "a " * 50_001 + '\na ::= "a"', PatternTooLarge, "more than 50000 states"),
        ('root ::= "a"' + "*" * 10_000, GrammarError, "make a rule of an inner group"),
        ("root ::= " + "(" * 1_000_000, PatternTooLarge, "limits=Limits(work=...)"),
        ("root ::= " + "(" * 100_000 + '"a"' + ' "b")' * 100_000, GrammarError, "more than 300"),
        ("\n".join(f"r{i} ::= r{i + 1}" for i in range(10_000)), GrammarError, "'r10000' is not defined"),
        ("\n".join(f"r{i} ::= r{i + 1}" for i in range(10_000)) + "\nr10000 ::= r0", GrammarError, "-> r5 -> ...)"),
    ],
    ids=["high tree", "long string", "many calls", "many signs", "open groups", "left nesting", "undefined", "endless"],
)
def test_hostile_grammars_end_in_an_error(text: str, kind: type[LogitkitError], says: str) -> None:
    with pytest.raises(kind, match=re.escape(says)):
        read_gbnf(text, start="r0" if text.startswith("r0") else None)


def test_the_limit_of_work_is_the_callers() -> None:
    with pytest.raises(PatternTooLarge, match="more than 20 steps"):
        read_gbnf('root ::= "a" "b"', limits=Limits(work=20))
