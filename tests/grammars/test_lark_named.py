"""Grammars that others refer to by name, against LLGuidance, whose requests have a list of grammars."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

import logitkit as lk
from logitkit.errors import ConfigurationError, GrammarError
from tests.examples import examples

BYTES: list[bytes | None] = [bytes([byte]) for byte in range(256)]
VOCABULARY = lk.Vocabulary([*BYTES, None], eos_ids=[256])

SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False}
CASES: list[tuple[str, dict[str, Any], str]] = [
    ('start: @x "b" | "c"', {"x": 'start: "a" @y\n', "y": 'start: "b"?'}, "abc"),
    ('start: "<" @x (";" @x)* ">"', {"x": "start: A\nA: /[ab]/"}, "ab<;>"),
    ('start: "<" @x ">"', {"x": 'start: "a"+\n%ignore "b"'}, "ab<>"),
    ('start: x "a"?\nx: @y | "b"', {"y": 'start: "(" start ")" | "b"'}, "()ab"),
]


def guidance_reads(grammar: str, grammars: dict[str, Any], text: str) -> bool:
    llguidance = pytest.importorskip("llguidance", reason="needs LLGuidance: pip install -c constraints.txt llguidance")
    named = [
        {"name": name, "lark_grammar" if isinstance(value, str) else "json_schema": value}
        for name, value in grammars.items()
    ]
    request = json.dumps({"grammars": [{"lark_grammar": grammar}, *named]})
    matcher = llguidance.LLMatcher(llguidance.LLTokenizer("byte"), request)
    assert not matcher.is_error(), matcher.get_error()
    ids = [*text.encode()]
    return bool(matcher.try_consume_tokens(ids) == len(ids) and matcher.is_accepting())


@pytest.mark.parametrize(("grammar", "grammars", "characters"), CASES)
def test_texts_are_those_that_llguidance_reads(grammar: str, grammars: dict[str, Any], characters: str) -> None:
    made = lk.Grammar(grammar, VOCABULARY, syntax="lark", grammars=grammars)
    texts = ["".join(text) for length in range(5) for text in product(characters, repeat=length)]
    # Ignored text before a nested grammar is allowed, as in Lark. LLGuidance does not allow it in spite of `allow_initial_skip`.
    texts = [text for text in texts if "<b" not in text or "ignore" not in str(grammars)]
    found = {text for text in texts if made.matches(text)}
    assert found == {text for text in texts if guidance_reads(grammar, grammars, text)}
    assert found


def test_a_schema_is_read_as_json() -> None:
    grammar, grammars = 'start: "<call>" @arguments "</call>"', {"arguments": SCHEMA}
    made = lk.Grammar(grammar, VOCABULARY, syntax="lark", grammars=grammars)
    for text, valid in {'<call>{"a":true}</call>': True, '<call>{"a":1}</call>': False, "<call></call>": False}.items():
        assert made.matches(text) == valid
        assert guidance_reads(grammar, grammars, text) == valid
    inline = lk.Grammar(f'start: "<call>" %json {json.dumps(SCHEMA)} "</call>"', VOCABULARY, syntax="lark")
    assert made.automaton.content_key == inline.automaton.content_key


def test_captures_of_a_named_grammar_are_read_back() -> None:
    grammars = {"x": 'start: item ("," item)*\nitem[capture]: /[a-z]+/\n%ignore " "'}
    made = lk.Grammar('start: "<" all ">"\nall[capture]: @x', VOCABULARY, syntax="lark", grammars=grammars)
    assert made.captures("<a, bc>") == {"item": ["a", "bc"], "all": ["a, bc"]}


def test_equal_grammars_are_equal_and_others_are_not() -> None:
    def made(**grammars: str) -> lk.Grammar:
        return lk.Grammar("start: @x", VOCABULARY, syntax="lark", grammars=grammars)

    first, second = made(x='start: "a"'), made(x='start: "b"')
    assert first == made(x='start: "a"')
    assert hash(first) == hash(made(x='start: "a"'))
    assert first != second
    assert (first.matches("a"), second.matches("a")) == (True, False)


def test_a_configuration_has_them_too() -> None:
    value = {"text": "start: @x @y", "syntax": "lark", "grammars": {"x": 'start: "a"', "y": {"const": 1}}}
    made = lk.from_config({"grammar": value}, VOCABULARY)
    assert isinstance(made, lk.Grammar)
    assert made.matches("a1")
    assert lk.to_config(made)["grammar"]["grammars"] == value["grammars"]
    with pytest.raises(ConfigurationError, match="a grammar in Lark's syntax, or a JSON Schema"):
        lk.from_config({"grammar": {**value, "grammars": {"x": 1}}}, VOCABULARY)


def test_a_language_has_them_too() -> None:
    text = lk.languages.grammar("start: @x", "lark", grammars={"x": 'start: "a" start | "b"'})
    language = lk.languages.sequence(lk.languages.literal("<"), text, lk.languages.literal(">"))
    constraint = language.constraint(VOCABULARY)
    assert [constraint.matches(text) for text in ("<aab>", "<aa>")] == [True, False]


MISTAKES: dict[str, tuple[dict[str, Any] | None, int, str]] = {
    'start: "a" @x': (None, 12, "there is not a grammar @x; pass it in grammars={...}; given are: none"),
    "start: @x ": ({"y": "start: A"}, 8, "there is not a grammar @x; pass it in grammars={...}; given are: @y"),
    "start: @1": ({"y": "start: A"}, 8, "after @ stands the name of a grammar"),
    "start: @x @x": ({"x": "start: A"}, 8, "in @x, line 1, column 8: the rule 'A' is not defined"),
    "start: @x | @y": ({"x": 'start: "a"', "y": 'item: "a"'}, 13, "in @y: there is no rule 'start'"),
    "start: @y @x": (
        {"x": "start: @y", "y": "start: @x"},
        8,
        "in @y, line 1, column 8: in @x, line 1, column 8: the grammar @y",
    ),
    "start:  @x": ({"x": {"type": "strin"}}, 9, "in this schema"),
    "start: A\nA: @x": ({"x": 'start: "a"'}, 13, "the terminal A contains %lark"),
}


@pytest.mark.parametrize("grammar", MISTAKES)
def test_a_mistake_has_its_place(grammar: str) -> None:
    grammars, position, reason = MISTAKES[grammar]
    with pytest.raises(GrammarError) as caught:
        lk.Grammar(grammar, VOCABULARY, syntax="lark", grammars=grammars)
    assert reason in caught.value.reason
    assert caught.value.position == position - 1


def test_a_chain_of_grammars_has_a_limit() -> None:
    chain = {f"g{i}": f"start: @g{i + 1}" for i in range(examples(200))}
    with pytest.raises(GrammarError, match="is more than 16 grammars deep"):
        lk.Grammar("start: @g0", VOCABULARY, syntax="lark", grammars=chain)
    twice = {f"g{i}": f"start: @g{i + 1} | a\na: @g{i + 2}" for i in range(14)} | {
        "g14": 'start: "a"',
        "g15": 'start: "b"',
    }
    assert lk.Grammar("start: @g0", VOCABULARY, syntax="lark", grammars=twice).matches("b")


@pytest.mark.parametrize(
    ("grammars", "reason"),
    [
        (["start: A"], "grammars is of type list"),
        ({"@x": "start: A"}, "grammars has the name '@x'"),
        ({1: "start: A"}, "grammars has the name 1"),
        ({"x": 1}, r"grammars\['x'\] is of type int"),
        ({"x": {"a": {1}}}, r"grammars\['x'\] is not JSON"),
    ],
)
def test_other_arguments_are_refused(grammars: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        lk.Grammar("start: @x", VOCABULARY, syntax="lark", grammars=grammars)


def test_gbnf_has_none() -> None:
    with pytest.raises(ConfigurationError, match="only syntax='lark' refers to some"):
        lk.Grammar('root ::= "a"', VOCABULARY, grammars={"x": 'start: "a"'})
