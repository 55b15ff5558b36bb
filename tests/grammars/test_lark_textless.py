"""Terminals without a text, because no text is in all operands of `&`, against LLGuidance."""

from __future__ import annotations

import pytest

import logitkit as lk
from logitkit.errors import GrammarError
from logitkit.grammars.lark import LarkLexer, read_lark
from tests.grammars.guidance_judge import guidance_reads
from tests.grammars.recogniser import accepts

# Grammars in which something is left, and the texts that are.
LEFT = {
    'start: "foo" | ST\nST: /a/? & /a{2}/': ["foo"],
    'start: "foo" | ST "x"\nST: /a/ /b/ & /b/': ["foo"],
    'start: "x" T\nT: "y" | "z" (/a/ & /b/)': ["xy"],
    'start: s "y" | "z"\ns: "a" T\nT: "z" (/a/ & /b/)\n%ignore " "': ["z"],
    'start: (A | "b" | c)+\nA: B & "x"\nB: /a/ & /b/\nc: A "a" | "q"': ["b", "q", "bqb"],
    'start: "a" A? "b"\nA: "a" & ~"a"': ["ab"],
}
TEXTS = ["foo", "a", "aa", "b", "ab", "xy", "xz", "xza", "z", "azy", "q", "bqb", "x", "aab"]


@pytest.mark.parametrize("grammar", LEFT)
@pytest.mark.parametrize("lexer", ["longest", "contextual", "dynamic"])
def test_what_needs_such_a_terminal_is_left_out(grammar: str, lexer: LarkLexer) -> None:
    rules = read_lark(grammar, lexer=lexer)
    assert [text for text in TEXTS if accepts(rules, text)] == LEFT[grammar]
    line = next(at for at, text in enumerate(grammar.splitlines(), 1) if "&" in text and "B &" not in text)
    assert f"no text is in all operands of & in line {line}, so what needs one is left out" in rules.warnings


@pytest.mark.parametrize("grammar", LEFT)
def test_llguidance_reads_the_same_texts(grammar: str) -> None:
    assert [text for text, read in guidance_reads(grammar, TEXTS).items() if read] == LEFT[grammar]


def test_such_a_grammar_is_compiled_with_a_warning() -> None:
    vocabulary = lk.Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_ids=[256])
    with pytest.warns(UserWarning, match="no text is in all operands of & in line 2"):
        grammar = lk.Grammar('start: "foo" | ST\nST: /ab/ & /b/', vocabulary, syntax="lark")
    assert [text for text in TEXTS if grammar.matches(text)] == ["foo"]


@pytest.mark.parametrize(
    ("grammar", "line", "column"),
    [
        ('start: A\nA: "a" & "b"', 2, 4),
        ('start: "x" T\nT: "z" (/a/ & /b/)', 2, 8),
        ('start: s "x"\ns: "(" s ")" | A\nA: /a/ & ~/a/', 3, 4),
    ],
)
@pytest.mark.parametrize("lexer", ["longest", "contextual", "dynamic"])
def test_a_grammar_of_which_nothing_is_left_is_refused(grammar: str, line: int, column: int, lexer: LarkLexer) -> None:
    with pytest.raises(GrammarError, match="no text is in all operands of &, and every text needs one") as error:
        read_lark(grammar, lexer=lexer)
    assert f"line {line}, column {column}:" in str(error.value)


@pytest.mark.parametrize("textless", ["", '| A\nA: "a" & "b"'])
def test_other_rules_must_still_have_a_finite_text(textless: str) -> None:
    with pytest.raises(
        GrammarError, match=r"the rule 'r' has no finite text \(r -> r -> ...\); add an alternative"
    ) as error:
        read_lark(f'start: "x" | r | s\nr: "(" r ")"\ns: "y" {textless}')
    assert "line 2, column 1:" in str(error.value)


def test_the_error_says_which_rule_has_no_text() -> None:
    with pytest.raises(GrammarError, match="every text needs one: the rule 'start' has no finite text"):
        read_lark('start: A\nA: "a" & "b"')
