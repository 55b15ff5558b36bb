"""Templates of Lark's syntax, against Lark."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.grammars.lark import read_lark
from tests.examples import examples
from tests.grammars.mistakes import check_mistake
from tests.grammars.recogniser import accepts
from tests.grammars.template_cases import TemplateCase, lark_reads, template_cases


@settings(max_examples=examples(60), deadline=None)
@given(template_cases())
def test_a_grammar_with_templates_has_the_texts_that_lark_reads(case: TemplateCase) -> None:
    expected = lark_reads(case.grammar, case.texts)
    try:
        rules = read_lark(case.grammar, lexer="dynamic")
    except GrammarError as error:
        # Lark reads rules without a finite text.
        if "no finite text" not in error.reason and expected is not None:
            raise
        return
    if expected is not None:
        assert tuple([accepts(rules, text) for text in case.texts]) == expected


@pytest.mark.parametrize(
    ("grammar", "valid", "invalid"),
    [
        ('start: "[" _list{N, ","} "]"\n_list{x, sep}: x (sep x)*\nN: /[0-9]+/', ["[1]", "[1,22,3]"], ["[]", "[1,]"]),
        ('_list{x}: x ("," x)*\nstart: _list{pair{"a"}}\npair{x}: x ":" x', ["a:a", "a:a,a:a"], ["a", "a:a,a"]),
        ('start: nest{"a"}\nnest{x}: x | "(" nest{x} ")"', ["a", "((a))"], ["(a", "()"]),
        ('start: both{"a"}\nboth{start}: start\n  | "<" start ">"', ["a", "<a>"], ["<<a>>"]),
        ('start: t{"a".."c", <[1]>}\n!t{x, y}.2: x+ -> many\n  | y y', ["a", "cab"], ["d", ""]),
        ('start: t{"a"}{2} "b"\nt{x}: x', ["aab"], ["ab", "aaab"]),
    ],
)
def test_a_parameter_stands_for_an_argument(grammar: str, valid: list[str], invalid: list[str]) -> None:
    rules = read_lark(grammar)
    assert [accepts(rules, text) for text in (*valid, *invalid)] == [True] * len(valid) + [False] * len(invalid)


MISTAKES = {
    'start: _sep{"a", "b"}': (1, 8, "the template '_sep' is not defined"),
    'start: _lst{"a"}\n_list{x}: x': (1, 8, "did you mean '_list'?"),
    'start: t{"a", "b"}\nt{x}: x': (1, 8, "the template t has 1 parameters (x), and 2 arguments are given"),
    "start: t\nt{x, y}: x y": (1, 8, "t is a template; write its arguments, as in t{x, y}"),
    "start: t{}\nt{x}: x": (1, 10, "an argument of a template is a name, a string or a regular expression"),
    'start: t{"a" "b"}\nt{x}: x': (1, 14, "a comma, or } after the arguments"),
    'start: T{"a"}\nT{x}: x': (1, 9, "the terminal T takes no arguments"),
    'start: "a"\nT{x}: x': (2, 2, "the terminal T has parameters"),
    'start: "a"\nt{X}: X': (2, 3, "the name of a parameter, in lower case, is missing"),
    'start: "a"\nt{x, x}: x': (2, 6, "t has two parameters x"),
    'start: "a"\nt{x}: x\nt{y}: y': (3, 1, "t is defined more than once"),
    'start: "a"\nt{x}: x\nt: "b"': (3, 1, "t is defined more than once"),
    'start: t{"a"}\nt{x}: x{"b"}': (2, 8, "the parameter x takes no arguments"),
    'start: t{"a"}\nt{x}: x (': (2, 9, "this ( is not closed"),
    "start: t{nothing}\nt{x}: x": (1, 10, "the rule 'nothing' is not defined"),
    'start: t{"a"}\nt{x}: x t{t{x}}': (2, 9, "arises from more than 64 other uses of templates"),
    'start: t{"a"}\nt{x}: "(" t{x}': (1, 1, "no finite text"),
    "start: " + "t{" * 100: (1, 137, "the arguments of templates nest more than 64 deep"),
}


@pytest.mark.parametrize("grammar", MISTAKES)
def test_a_mistake_has_its_place(grammar: str) -> None:
    check_mistake(grammar, MISTAKES[grammar])


def test_many_uses_are_refused() -> None:
    # Each level has twice as many uses with different arguments: 2**60 in all.
    grammar = 'start: t{"a"}\nt{x}: x | t{u{x}} | t{v{x}}\nu{x}: x "b"\nv{x}: x "c"\n'
    with pytest.raises((PatternTooLarge, GrammarError)):
        read_lark(grammar)


def test_a_template_that_is_not_used_is_a_warning() -> None:
    assert read_lark('start: "a"\nt{x}: x').warnings == ("the template t is not used",)
