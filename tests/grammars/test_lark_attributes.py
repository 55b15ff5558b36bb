"""Attributes of rules in Lark's syntax, against LLGuidance."""

from __future__ import annotations

from itertools import product

import pytest

from logitkit.errors import GrammarError
from logitkit.grammars.lark import LarkLexer, read_lark
from tests.grammars.guidance_judge import guidance_reads
from tests.grammars.mistakes import check_mistake
from tests.grammars.recogniser import accepts

LEXERS: tuple[LarkLexer, ...] = ("longest", "contextual")

# Each grammar with the characters of its texts: all texts of up to four of them are tried.
TAIL = "tail: TEXT\nTEXT: /(.|\\n)*/"
GRAMMARS = {
    'start: r "a"\nr[lazy]: /b+/': "ab",
    'start: "<" r\nr[lazy]: /[ab]+b/': "<ab",
    'start: r ">"\nr[lazy]: "ab" | "abb" | "ba"': ">ab",
    'start: r r ";"\nr[lazy]: A* "b"\nA: /[ab]/': "ab;",
    'start: r r?\nr[suffix=";"]: /[a;]*/': "a;b",
    'start: r "b"\nr[stop=";"]: /[a;]*/': "a;b",
    "start: r r?\nr[stop=/;a?/]: /[a;]*b?/": "a;b",
    "start: r r?\nr[suffix=/;;|b/]: /[ab;]*/": "a;b",
    'start: r "a"\nr[suffix=END]: /[ab]*/\nEND: "b" | "<"': "ab<",
    f'start: tool* tail\nhead[lazy]: TEXT "<b"\ntool: head /[a]+/ ">"\n{TAIL}': "ab<>",
    f'start: (f | g)* tail\nfh[lazy]: TEXT "<"\nf: fh "a" ">"\ngh[lazy]: TEXT "<"\ng: gh "b" ">"\n{TAIL}': "ab<>",
    f'start: (f | g)* tail\nfh[lazy]: TEXT "<a"\nf: fh ">"\ngh[lazy]: TEXT "<b"\ng: gh /[ab]/\n{TAIL}': "ab<>",
}


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_lazy_rules_have_the_texts_that_llguidance_reads(grammar: str) -> None:
    characters = GRAMMARS[grammar]
    texts = ["".join(text) for length in range(5) for text in product(characters, repeat=length)]
    judged = guidance_reads(grammar, texts)
    for lexer in LEXERS:
        rules = read_lark(grammar, lexer=lexer)
        assert {text: accepts(rules, text) for text in texts} == judged
    assert any(judged.values())


@pytest.mark.parametrize(
    ("grammar", "valid", "invalid"),
    [
        ('start: r "!"\nr[max_chars=2]: /[aé]*/', ["!", "éé!"], ["aaa!", "aa"]),
        (
            'start: r ["c"]\nr[max_chars=2, suffix="b"]: /[ab]+/',
            ["ab", "aab", "aabc", "bb"],
            ["b", "aaab", "abb", "aa"],
        ),
        ('start: r\nr[max_chars=3, lazy].1: A B\nA: /a+/\nB: "b"', ["ab", "aab"], ["aaab", "abb"]),
        ('start: "<" r ">"\nr[lazy]: /a*/', ["<>"], ["<a>"]),
        ('start: "<" r ">"\nr[lazy]: A & ~"a"\nA: /a+b?/', ["<aa>", "<ab>"], ["<a>", "<aab>"]),
        (
            'start: r "."\nr[lazy]: "a" | t\nt: "b"',
            None,
            "the terminal r contains the rule t; a terminal, as a rule with attributes",
        ),
    ],
)
def test_a_rule_with_attributes_is_one_terminal(
    grammar: str, valid: list[str] | None, invalid: list[str] | str
) -> None:
    if valid is None:
        with pytest.raises(GrammarError) as caught:
            read_lark(grammar)
        assert str(invalid) in caught.value.reason
        return
    rules = read_lark(grammar)
    assert [accepts(rules, text) for text in (*valid, *invalid)] == [True] * len(valid) + [False] * len(invalid)


def test_ignored_texts_stand_after_a_lazy_rule_and_not_inside() -> None:
    rules = read_lark('start: "<" r ">"\nr[lazy]: "a" "b"\n%ignore " "')
    texts = {"<ab>": True, "< ab >": True, "<a b>": False}
    assert {text: accepts(rules, text) for text in texts} == texts


def test_capture_changes_no_text() -> None:
    rules = read_lark('start: a\na[capture="name"]: "x" b\nb[capture, lazy]: /x+/')
    assert [accepts(rules, text) for text in ("xx", "xxx")] == [True, False]
    assert not rules.warnings
    assert [rule.capture for rule in rules.rules if not rule.is_terminal] == [None, "name", "b"]


MISTAKES = {
    'start[]: "a"': (
        1,
        7,
        "an attribute of a rule is one of capture, lazy, max_chars, max_tokens, stop, stop_capture, suffix",
    ),
    'start[slow]: "a"': (1, 7, "an attribute of a rule is one of"),
    'start[lazy, lazy]: "a"': (1, 13, "the attribute lazy is given twice"),
    'start[lazy: "a"': (1, 11, "a comma, or ] after the attributes of a rule, is missing"),
    'start: A\nA[lazy]: "a"': (2, 2, "the terminal A has attributes"),
    'start[max_tokens]: "a"': (1, 7, "max_tokens needs a number, as in max_tokens=100"),
    'start[max_tokens=3]: "a" r\nr: "b"': (1, 26, "the terminal start contains the rule r"),
    'start[stop="", suffix="b"]: "a"': (1, 6, "stop and suffix cannot be given together"),
    'start[temperature=0.7]: "a"': (1, 7, "chain the grammar with a processor such as Temperature"),
    'start[stop]: "a"': (1, 7, 'stop needs a marker, as in stop="</end>"'),
    'start[stop="x", suffix="y"]: "a"': (1, 6, "stop and suffix cannot be given together"),
    'start[stop_capture="x"]: "a"': (1, 6, "stop_capture names a marker; give one"),
    'start[stop="x", stop_capture]: "a"': (1, 29, 'a name, as in stop_capture="name", is missing'),
    'start[capture=x]: "a"': (1, 15, 'a name, as in capture="name", is missing'),
    'start[capture=""]: "a"': (1, 15, "the name of a capture has at least one character"),
    'start[suffix]: "a"': (1, 7, "suffix needs a marker"),
    'start[suffix=""]: "a"': (1, 14, "the marker is empty"),
    'start[suffix=x]: "a"': (1, 14, "a marker is a string, a regular expression or a terminal"),
    'start[suffix=X]: "a"': (1, 14, "the rule 'X' is not defined"),
    'start: "a" r\nr[lazy, suffix=START]: /b*/': (2, 16, "the rule 'START' is not defined"),
    'start: "a" r\nr[suffix=END, lazy]: A\nEND: t\nA: "a"\nt: "b"': (3, 6, "the terminal END contains the rule t"),
    'start[max_chars]: "a"': (1, 7, "max_chars needs a number"),
    'start[max_chars=0]: "a"': (1, 17, "max_chars must be at least 1"),
    'start[max_chars=1]: "ab"': (1, 1, "start has no text with its attributes"),
    "start[lazy]: /a(?!b)/": (
        1,
        1,
        "lookaheads, word boundaries, anchors and lazy quantifiers are not supported in start",
    ),
}


@pytest.mark.parametrize("grammar", MISTAKES)
def test_a_mistake_has_its_place(grammar: str) -> None:
    check_mistake(grammar, MISTAKES[grammar])
