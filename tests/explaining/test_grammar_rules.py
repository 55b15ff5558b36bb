"""A refusal by a grammar names the rules that might go on, with their lines."""

from __future__ import annotations

import pytest

import logitkit as lk
from logitkit.explaining.rule_sources import rule_sources
from logitkit.grammars.gbnf import read_gbnf
from logitkit.patterns.charset import CharSet

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
SUM = """root ::= sum
sum  ::= item ("+" item)*
item ::= [0-9]{1,2} | "(" sum ")"
"""


@pytest.mark.parametrize(
    ("text", "expected", "lines"),
    [
        ("x", "digit or '('", [3]),
        ("(+", "digit or '('", [3]),
        ("12)", "'+' or the end", [2]),
        ("1x", "digit, '+' or the end", [3, 2]),
        ("(12x", "')' or '+'", [2, 3]),
    ],
)
def test_the_rules_that_might_go_on_are_named(text: str, expected: str, lines: list[int]) -> None:
    grammar = lk.Grammar(SUM, VOCABULARY)
    found = lk.explain(grammar, VOCABULARY, "", text)
    assert found.refusal is not None
    assert (found.refusal.byte, found.refusal.expected) == (len(text) - 1, expected)
    assert [SUM.splitlines().index(source.text) + 1 for source in found.refusal.sources] == lines
    for source in found.refusal.sources:
        assert source.span is not None
        assert SUM[slice(*source.span)] == source.text
    shown = str(found)
    assert all(f"The grammar says in line {line}: " in shown for line in lines)


@pytest.mark.parametrize("text", ["", "1", "(1+2)", "((1"])
def test_a_legal_beginning_has_no_refusal(text: str) -> None:
    assert lk.explain(lk.Grammar(SUM, VOCABULARY), VOCABULARY, "", text).refusal is None


def test_a_text_that_ends_too_early_names_what_is_missing() -> None:
    found = lk.explain(lk.Grammar(SUM, VOCABULARY), VOCABULARY, "", [*b"(1", 256])
    assert found.refusal is not None
    assert (found.refusal.cause, found.refusal.expected) == ("end", "digit, ')' or '+'")
    assert len(found.refusal.sources) == 2


def test_rules_of_lark() -> None:
    text = 'start: word ("," word)*\nword: NAME | "(" start ")"\nNAME: /[a-z]+/\n'
    grammar = lk.Grammar(text, VOCABULARY, syntax="lark")
    found = lk.explain(grammar, VOCABULARY, "", "(a;")
    assert found.refusal is not None
    assert {source.text for source in found.refusal.sources} == {"NAME: /[a-z]+/", '","', '")"'}


@pytest.mark.parametrize(
    ("text", "written", "rule"),
    [
        ('root ::= root "a" | "b"', "baa", "root"),
        ('root ::= e root "x" | "y"\ne ::= "" | "z"', "zzyx", "root"),
        ('root ::= a\na ::= b | "x"\nb ::= a | "y" a "z"', "yx", "b"),
    ],
)
def test_recursion_and_empty_rules(text: str, written: str, rule: str) -> None:
    found = rule_sources(read_gbnf(text), text, written, CharSet.from_string("axz"))
    assert any(source.text.startswith(f"{rule} ::=") for source in found)


def test_a_text_that_can_be_read_in_too_many_ways_has_no_sources() -> None:
    text = 'root ::= root root | "a"'
    assert rule_sources(read_gbnf(text), text, "a" * 400, CharSet.from_string("a")) == ()


def test_a_rule_of_very_many_positions_is_read_without_its_counts() -> None:
    text = 'root ::= "(" many ")"\nmany ::= (([a-z]? [0-9]? [A-Z]?){0,50} "-"?){0,1000}\n'
    found = rule_sources(read_gbnf(text), text, "(ab1", CharSet.from_string("a"))
    assert [source.text for source in found] == [text.splitlines()[1]]
