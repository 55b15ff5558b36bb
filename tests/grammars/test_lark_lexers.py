"""Lark's contextual lexer and the longest match, against Lark: random terminals that begin alike, and cases by hand."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import GrammarError
from logitkit.grammars.lark import LarkLexer, read_lark
from logitkit.languages import grammar, regex, sequence
from tests.examples import examples
from tests.grammars.lark_lexers import LexerCase, Longest, lexer_cases, parsers, reads, splitter
from tests.grammars.recogniser import accepts

BYTES = lk.Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_ids=[256])


def check(case: LexerCase, lexer: LarkLexer | None) -> None:
    """Check that each accepted text is one of the judge."""
    found = parsers(case.grammar)
    assume(found is not None)
    judge = splitter(case.grammar, lexer)
    assume(judge is not None)
    assert found is not None
    assert judge is not None
    longest = Longest(found[0])
    for text in case.texts():
        if judge(text):
            assert longest.reads(text) if lexer == "longest" else reads(found[0], text), text


@settings(max_examples=examples(160), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
@pytest.mark.parametrize("lexer", ["contextual", None])
def test_lark_reads_what_is_accepted(lexer: LarkLexer | None, data: st.DataObject) -> None:
    check(data.draw(lexer_cases(assertions=True)), lexer)


@settings(max_examples=examples(160), deadline=None, suppress_health_check=list(HealthCheck))
@given(lexer_cases())
def test_what_is_accepted_has_the_longest_terminals(case: LexerCase) -> None:
    check(case, "longest")


NUMBERS = "\nNUM: /[0-9]+/\nFLOAT: /[0-9]+\\.[0-9]+/\n"
IGNORED = "\n%ignore A\n%ignore B\n%ignore C"
WORDS = "\nA: /[a-z]+/\nB: /[a-z.]+/\n"


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ('start: "<" "=" | "<=" ">"', ["<=", "<=>", "<"]),
        ('start: NUM "." NUM | FLOAT "x"' + NUMBERS, ["1.5", "1.5x", "1."]),
        ('start: NUM ".." NUM | FLOAT "x"' + NUMBERS, ["1..5", "1.5x", "1.5..2"]),
        ('start: N ".." N\nN: /[0-9]+(\\.[0-9]+)?/', ["1..2", "1.5..2", "1.5.2", "1...2"]),
        # The longer pattern comes first, even where its text is shorter.
        ('start: (A | B) ";" | A ":"' + WORDS, ["a;", "a:", "a.;", "."]),
        ("start: A | B\nA: /[a-z]{1,9}/\nB: /[a-c]+x?/", ["ax", "ad", "dx"]),
        ("start: A | B\nA: /[a-c][a-c0-9]{0,3}/\nB: /[a-z]+/", ["a1", "1", "ab"]),
        # Priorities.
        ('start: WORD "1" | NAME "."\nWORD.2: /[a-z]+/\nNAME: /[a-z]+[0-9]/', ["a1", "a1.", "a"]),
        ('start: IF "x" | NAME\nIF.1: "if"\nNAME: /[a-z]+/', ["ifx", "iffy", "i", "if"]),
        ('start: IF "x" | NAME\nIF.1: /if\\b/\nNAME: /[a-z]+/\n%ignore " "', ["ifx", "if x", "iffy", "if"]),
        # A string that an expression of its priority finds.
        ("start: \"'foo'\" /a+/ | STRING /b+/\nSTRING: /'[^']*'/", ["'foo'a", "'foo'bb", "'bar'b", "'bar'a"]),
        ('start: "a" /a.?/ | /a.?/', ["aaa", "aa", "a", "ab"]),
        ('start: "-" NUM | SIGN "x"\nSIGN: "+" | "-"\nNUM: /[0-9]+/', ["-1", "-x", "+x"]),
        ('start: "SELECT"i NAME | NAME "."\nNAME: /[a-z]+/\n%ignore " "', ["SELECT a", "select a", "select.", "a."]),
        # Options are tried in order; those of terminals are sorted.
        ('start: A "x"\nA: /a|ab/', ["ax", "abx"]),
        ('start: A "x"\nA: "a" | "ab"', ["ax", "abx"]),
        ("start: A B\nA: /a+?b*/\nB: /a+/", ["aba", "aa", "abba", "baa"]),
        # Ignored terminals are dropped even in rules, and take part in the choice.
        ('start: "a" " "? "b"\n%ignore " "', ["ab", "a b"]),
        ('start: "a" TEXT\nTEXT: /[b ]+/\n%ignore " "', ["a b", "a  b", " a b", "a ", "ab "]),
        ('start: "-" A | A\nA: /[a-]/\n%ignore /--.*/', ["-a", "--a", "a--", "-"]),
        ('start: (NUM "if")?\nNUM: /[0-9]+/\n%ignore "1"', ["", "1", "1if", "12if", "2if", "21if", "2if1"]),
        ('start: "x"\nA: /a|xyz/\nB: /ab/\n%ignore A\n%ignore B', ["x", "ax", "xaa", "abx", "xab"]),
        # Equal terminals are one.
        ('start: "if" A | A\nIF.1: "if"\nA: /[a-z]+/\n%ignore " "', ["if a", "ifa", "if"]),
    ],
)
def test_the_contextual_lexer_by_example(text: str, texts: list[str]) -> None:
    found = parsers(text)
    assert found is not None
    rules = read_lark(text, lexer="contextual")
    assert [(t, accepts(rules, t)) for t in texts] == [(t, reads(found[0], t)) for t in texts]


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ('start: A ":" | B ";"' + WORDS, "Lark's lexers read 'a' as B where A may begin with it too"),
        (
            'start: "SELECT"i NAME | NAME "."\nNAME: /[a-z]+/',
            "read 's' as NAME where \"SELECT\"i may begin with it too",
        ),
        ("start: \"'foo'\" /a+/ | STRING /b+/\nSTRING: /'[^']*'/", "read \"'foo'\" as that string and never as STRING"),
        ('start: A "x"\nA: /a|ab/', "try the options of A in order, and never find 'ab'"),
        ('start: "a" " "? "b"\n%ignore " "', 'ignore %ignore " " even where a rule has it'),
        ('start: (NUM "if")?\nNUM: /[0-9]+/\n%ignore "1"', "read '1' as NUM where %ignore \"1\" may begin with it too"),
        (
            'start: "x"\nA: /a|xyz/\nB: /ab/\n%ignore A\n%ignore B',
            "read 'a' as A where B may begin with it too",
        ),
        # The rest of a text is not ignored: D reads it, or C goes on from it.
        (
            'start: D "x"\nA: "ab"\nB: /a|xyz/\nC: "b"\nD.1: /b/' + IGNORED,
            "read 'a' as B where A may begin with it too",
        ),
        ('start: /[0-9]/\nA: "ab"\nB: /a|wxyz/\nC: /b[0-9]*/' + IGNORED, "read 'a' as B where A may begin with it too"),
        ('start: "x"\nA: "abc"\nB: /ab|a|wxyz/\nC: "bc"' + IGNORED, "read 'a' as B where A may begin with it too"),
        ('start: "x"\n%ignore /a|ab/', "try the options of %ignore /a|ab/ in order, and never find 'ab'"),
    ],
)
def test_the_default_warns_where_lark_reads_a_text_in_another_way(text: str, warning: str) -> None:
    with pytest.warns(UserWarning, match=warning):
        lk.Grammar(text, BYTES, syntax="lark")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lk.Grammar(text, BYTES, syntax="lark", lexer="longest")


@pytest.mark.parametrize(
    "ignored",
    [
        "%import common.WS\n%import common.NEWLINE\n%ignore WS\n%ignore NEWLINE",
        "%import common.WS\n%import common.SH_COMMENT\n%ignore WS\n%ignore SH_COMMENT",
        '%ignore " "\n%ignore /[ \\n\\r\\t]+/',
    ],
)
def test_it_does_not_matter_which_of_two_ignored_terminals_is_read_if_the_rest_is_ignored_too(ignored: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        constraint = lk.Grammar(f"start: /[a-z]+/ /[0-9]+/\n{ignored}", BYTES, syntax="lark")
    assert constraint.matches(" \n\n a \r\n\t1 \n")


def test_a_terminal_without_a_text_is_a_warning_for_the_contextual_lexer() -> None:
    text = "start: FLOAT | SIGNED_FLOAT\n%import common.FLOAT\n%import common.SIGNED_FLOAT"
    with pytest.warns(UserWarning, match="the terminal FLOAT has no text, because others match all of its texts"):
        constraint = lk.Grammar(text, BYTES, syntax="lark", lexer="contextual")
    assert [t for t in ("1.5", "-1.5", "1", "x") if constraint.matches(t)] == ["1.5", "-1.5"]
    with pytest.warns(UserWarning, match=r'%ignore " " has no text in rules, because it is ignored'):
        lk.Grammar('start: "a" [" "] "b"\n%ignore " "', BYTES, syntax="lark", lexer="contextual")
    with pytest.raises(GrammarError, match="the rule 'start' has no finite text"):
        read_lark('start: "a" " " "b"\n%ignore " "', lexer="contextual")


def test_an_unknown_lexer_is_refused() -> None:
    with pytest.raises(lk.errors.ConfigurationError, match=r"lexer is 'basic'; allowed are .*'contextual'"):
        lk.Grammar('start: "a"', BYTES, syntax="lark", lexer="basic")  # type: ignore[arg-type]


def test_the_lexer_does_not_restrict_what_follows_the_grammar_beyond_its_last_terminal() -> None:
    rules = 'start: ("<" | "<=")+ NAME | "<" "."\nNAME: /[a-z]+/'
    language = sequence(grammar(rules, "lark"), "=a").constraint(BYTES)
    assert [text for text in ("<=a=a", "<.=a", "<a=a", "<ab") if language.matches(text)] == ["<=a=a", "<.=a", "<a=a"]
    name = sequence(grammar("start: NAME\nNAME: /[a-z]+/", "lark"), regex("b|;")).constraint(BYTES)
    assert [text for text in ("ab", "a;") if name.matches(text)] == ["a;"]
