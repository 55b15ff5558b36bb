"""Nested grammars, parts of texts, and options in Lark's syntax, against LLGuidance and brute force."""

from __future__ import annotations

import json
import sys
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.errors import GrammarError, PatternTooLarge
from logitkit.grammars.lark import LarkLexer, read_lark
from logitkit.grammars.substrings import chunks_of
from tests.examples import examples
from tests.grammars.guidance_judge import guidance_reads
from tests.grammars.mistakes import check_mistake
from tests.grammars.recogniser import accepts


def parts(chunks: list[str]) -> set[str]:
    """All runs of chunks."""
    return {"".join(chunks[i:j]) for i in range(len(chunks) + 1) for j in range(i, len(chunks) + 1)}


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.text("ab ", max_size=3), max_size=5), st.lists(st.text("ab ", max_size=7), max_size=8))
def test_chunks_that_follow_each_other(chunks: list[str], others: list[str]) -> None:
    rules = read_lark(f"start: A\nA: %regex {json.dumps({'substring_chunks': chunks})}")
    expected = parts(chunks)
    assert {text for text in {*others, *expected} if accepts(rules, text)} == expected


@pytest.mark.parametrize(
    "value",
    [
        {"substring_chunks": ["abc", "ab", "c", "abc"]},
        {"substring_words": "a bb  a_1. b, a"},
        {"substring_words": "über ｘ\u00a0y"},
        {"substring_chars": "abcab"},
        {"substring_chars": "a🙂é"},
        {"substring_chars": ""},
    ],
)
def test_parts_of_a_text_are_those_of_llguidance(value: dict[str, Any]) -> None:
    grammar = f'start: "<" %regex {json.dumps(value)} ">"'
    rules, chunks = read_lark(grammar), chunks_of(json.dumps(value))
    source = "".join(chunks)
    bounds = range(len(source) + 1)
    every = {f"<{source[i:j]}>" for i in bounds for j in bounds[i:]} | {"<aa>", "<cb>", "<", "<>"}
    judged = guidance_reads(grammar, every)
    assert {text: accepts(rules, text) for text in every} == judged
    assert {text for text in every if judged[text]} == {f"<{text}>" for text in parts(chunks)}


# LLGuidance wants a nested grammar to end with a line.
NESTED = [
    'start: item %lark {\n start: item\n item: "b"\n} item\nitem: "a"',
    'start: "[" %lark {\n start: x\n x: "(" x ")" | %lark {\n start: "b"+\n}\n} "]"',
    'start: %lark {\n start: "a" | "b"\n} %lark {\n start: B?\n B: "}"\n} "a"',
    'start: "a" %lark {\n start: "a"* // }\n } "b"',
    'start: %lark {\n start: NAME\n NAME: /[ab]+/\n} "(" NAME ")"\nNAME: /[b]+/',
]


@pytest.mark.parametrize("grammar", NESTED)
def test_a_nested_grammar_has_names_of_its_own(grammar: str) -> None:
    rules = read_lark(grammar)
    texts = ["".join(text) for length in range(7) for text in product("ab", repeat=length)]
    texts += [f"[{'(' * n}{t}{')' * m}]" for n in range(3) for m in range(3) for t in ("b", "bb", "a", "")]
    texts += ["a}a", "}a", "b}a", "a}", "ab(b)", "a(bb)", "a(a)"]
    judged = guidance_reads(grammar, texts)
    assert {text: accepts(rules, text) for text in texts} == judged
    assert any(judged.values())


def test_a_nested_grammar_ignores_its_own_texts() -> None:
    rules = read_lark('start: "[" %lark { start: "a" "b"\n%ignore " " } "]" "."\n%ignore "_"')
    texts = {"[ab].": True, "[ a b ].": True, "_[_ab_]_.": True, "[a_b].": False, "[ab] .": False}
    assert {text: accepts(rules, text) for text in texts} == texts


def test_special_tokens_of_a_nested_grammar_are_those_of_the_whole() -> None:
    rules = read_lark('start: <[5]> %lark { start: <|end|> "a" <[5]> }')
    assert rules.tokens == (5, "<|end|>", 5)


def test_options_that_change_nothing_are_taken() -> None:
    rules = read_lark('%llguidance {"no_forcing": true}\n%grammar_options {"allow_initial_skip": true}\nstart: "a"')
    assert accepts(rules, "a")


@pytest.mark.parametrize("lexer", ["longest", "contextual", "dynamic"])
@pytest.mark.parametrize(
    ("options", "is_skipped"),
    [
        ((), True),
        ((True,), True),
        ((False,), False),
        ((False, True), True),
        ((True, False), False),
        ((False, False), False),
    ],
)
def test_what_is_ignored_may_stand_first_unless_an_option_forbids_it(
    options: tuple[bool, ...], is_skipped: bool, lexer: LarkLexer
) -> None:
    lines = [f'%llguidance {{"allow_initial_skip": {json.dumps(option)}}}' for option in options]
    grammar = "\n".join([*lines, 'start: "a" ("," "a")*', '%ignore " "'])
    texts = ["a", " a", "a , a ", "  a,a", " ", "a,"]
    found = {text: accepts(read_lark(grammar, lexer=lexer), text) for text in texts}
    assert found == {"a": True, " a": is_skipped, "a , a ": True, "  a,a": is_skipped, " ": False, "a,": False}
    if options:
        # Without the option, LLGuidance does not allow it.
        assert found == guidance_reads(grammar, texts)


MISTAKES = {
    'start: %regex {"a": 1}\n': (
        1,
        8,
        "%regex has 'a'; it takes one of substring_chars, substring_chunks, substring_words",
    ),
    "start: %regex {}\n": (1, 8, "%regex has nothing"),
    'start: %regex {"substring_chars": "a", "substring_words": "b"}\n': (1, 8, "it takes one of"),
    'start: %regex {"substring_chars": 1}\n': (1, 8, "substring_chars of %regex is not a string"),
    'start: %regex {"substring_chunks": ["a", 1]}\n': (1, 8, "substring_chunks of %regex is not a list of strings"),
    'start: %regex {"substring_chars": "\\ud800"}\n': (1, 8, "half of a surrogate pair"),
    "start: %regex\n": (1, 8, "a JSON object is missing after %regex"),
    'start: %regex {"a"}\n': (1, 19, "the object after %regex is not JSON"),
    "start: %lark\n": (1, 8, "a grammar is missing after %lark"),
    'start: %lark { start: "a"\n': (1, 8, "this %lark { is not closed by }"),
    'start: %lark {\n start: b\n b: x "}" }\n': (3, 5, "in this nested grammar: the rule 'x' is not defined"),
    'start: %lark { root: "a" }\n': (
        1,
        8,
        "in this nested grammar: there is no rule 'start'; give this name to the rule that the nested grammar begins with",
    ),
    "start: %lark {\n start: %lark {\n  start: y } }\n": (3, 10, "in this nested grammar: the rule 'y' is not defined"),
    'start: A\nA: %lark { start: "a" }\n': (2, 4, "the terminal A contains %lark"),
    "start: " + "%lark { start: " * 20: (1, 128, "grammars in %lark nest more than 8 deep"),
    '%llguidance {"no_forcing": 1}\nstart: "a"': (1, 1, "the option no_forcing is 1.0; allowed is false and true"),
    '%llguidance {"ignore_once": true}\nstart: "a"': (1, 1, "the option ignore_once is true; allowed is false"),
    '%llguidance {"x": true}\nstart: "a"': (1, 1, "x is not an option of a grammar that can be honoured"),
    'start: "a" %llguidance {}': (1, 12, "options of a grammar stand on a line of their own"),
}


@pytest.mark.parametrize("grammar", MISTAKES)
def test_a_mistake_has_its_place(grammar: str) -> None:
    check_mistake(grammar, MISTAKES[grammar])


@pytest.mark.parametrize(
    "grammar",
    [
        'start: %regex {"substring_chars": VALUE}',
        'start: %lark { start: %regex {"substring_chars": VALUE} }',
        '%llguidance {"no_forcing": VALUE}\nstart: "a"',
    ],
)
def test_an_object_that_nests_at_any_depth_is_refused_with_its_place(grammar: str) -> None:
    """Python's stack is deeper in some functions than in others, so all depths near its limit are tried."""
    limit = sys.getrecursionlimit()
    for depth in range(limit - 150, limit):
        with pytest.raises(GrammarError) as caught:
            read_lark(grammar.replace("VALUE", "[" * depth + "]" * depth))
        assert caught.value.line == 1


def test_a_long_text_has_too_many_parts() -> None:
    with pytest.raises(PatternTooLarge):
        read_lark(f"start: %regex {json.dumps({'substring_chars': 'ab' * 30_000})}")
