"""JSON values in Lark grammars: their texts are those that jsonschema accepts, and masks those of a finite language."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import GrammarError
from logitkit.grammars.lark import read_lark
from tests.grammars.guidance_judge import guidance_reads
from tests.grammars.recogniser import accepts

BYTES = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), b'{"', b'":', b'"}!', None], eos_ids=[259])
FINITE = {
    "type": "object",
    "properties": {"a": {"enum": [1, 12, "x"]}, "b": {"type": "boolean"}, "c": {"$ref": "#/properties/b"}},
    "required": ["a"],
    "additionalProperties": False,
}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 0},
        "n": {"$ref": "#"},
        "l": {"type": "array", "items": {"$ref": "#"}},
    },
    "required": ["a"],
    "additionalProperties": False,
}


def written(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def in_order(value: Any) -> Any:
    """Return a value with its members in the order of the schema."""
    if isinstance(value, list):
        return [in_order(item) for item in value]
    return {name: in_order(value[name]) for name in "anl" if name in value} if isinstance(value, dict) else value


def valid(value: object, schema: dict[str, Any]) -> bool:
    return bool(jsonschema.Draft202012Validator(schema).is_valid(value))


def test_masks_are_those_of_the_finite_language() -> None:
    absent = object()
    choices = [[absent, 1, 12, 2, "x", "y", True], [absent, True, False, None, 1], [absent, True, False, 0]]
    values = [
        {name: member for name, member in zip("abc", members, strict=True) if member is not absent}
        for members in product(*choices)
    ]
    texts = {f"{mark}{written(v)}!".encode() for v in values if valid(v, FINITE) for mark in ("", "{!", '{"')}
    grammar = lk.Grammar(f'start: ["{{!" | "{{\\""] %json {json.dumps(FINITE, indent=1)} "!"', BYTES, syntax="lark")
    context = lk.Context.of([[0]], vocabulary_size=260)
    waiting = [(b"", grammar.init_state(context))]
    met = 0
    while waiting:
        text, state = waiting.pop()
        mask = grammar.process_logits(state, torch.zeros(1, 260), context)[1][0] == 0
        after = {t[len(text) :] for t in texts if t.startswith(text)}
        expected = [any(rest.startswith(token) for rest in after) for token in BYTES.tokens[:259] if token is not None]
        assert mask.tolist() == [*expected, b"" in after], text
        met += 1
        waiting += [
            (text + bytes([byte]), grammar.advance(state, torch.tensor([byte])))
            for byte in range(256)
            if expected[byte]
        ]
    assert met > len(texts) > 50


MEMBERS = st.recursive(
    st.fixed_dictionaries({}, optional={"a": st.integers(-1, 20) | st.just("x")}),
    lambda inner: st.fixed_dictionaries(
        {"a": st.integers(0, 20)}, optional={"n": inner, "l": st.lists(inner, max_size=2)}
    ),
    max_leaves=3,
)


@given(MEMBERS, st.sampled_from(["", " ", "  "]))
def test_nested_values_are_those_of_jsonschema(value: dict[str, Any], blanks: str) -> None:
    rules = read_lark(f'start: "f" item "."\nitem: %json {json.dumps(NESTED)} | "(" item ")"\n%ignore " "')
    text = f"{blanks}f{blanks}({blanks}{written(in_order(value))}{blanks}){blanks}."
    assert accepts(rules, text) == valid(value, NESTED)


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ('if {"a":1,"n":{"a":2}} then {"a":3}', True),
        ('if {"a":1,"n":{"b":2}} then {"a":3}', False),
        ('if {"a":1} then {"a":3', False),
        ('if {"a": 1} then {"a":3}', False),
    ],
)
def test_several_values_in_one_grammar(text: str, legal: bool) -> None:
    schema = json.dumps(NESTED)
    grammar = lk.Grammar(f'start: "if" %json {schema} "then" %json {schema}\n%ignore " "', BYTES, syntax="lark")
    explanation = lk.explain(grammar, BYTES, [], text)
    assert (explanation.refusal is None and explanation.complete) == legal


def test_a_value_in_a_language() -> None:
    inner = lk.languages.grammar('start: "(" %json {"type": "integer"} ")" | "(" start ")"', "lark")
    constraint = lk.languages.tag("<a>", inner, "</a>").constraint(BYTES)
    for text, legal in (("<a>((-7))</a>", True), ("<a>((7)</a>", False), ("<a>(7.5)</a>", False)):
        explanation = lk.explain(constraint, BYTES, [], text)
        assert (explanation.refusal is None and explanation.complete) == legal


def test_what_a_schema_ignores_is_a_warning() -> None:
    said = read_lark('start: %json {"type": "string", "format": "phone", "maxLenght": 3}').warnings
    assert ["maxLenght" in said[0], "phone" in said[1]] == [True, True]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"item_separator": ", ", "key_separator": ":"}, "'item_separator' at #/x-guidance: ', ' does not match ','"),
        ({"key_separator": ": "}, "'key_separator' at #/x-guidance: ': ' does not match ':'"),
        ({"key_separator": "("}, "does not match ':'"),
        ({"item_separator": 1}, "does not match ','"),
        ({"json_allowed_escapes": "nx"}, "'nx' is not a text of the escapes nrbtf"),
        ({"json_allowed_escapes": ["n"]}, "['n'] is not a text of the escapes"),
        ({"whitespace": False}, "'whitespace' at #/x-guidance: this is not an option of LLGuidance; leave it out"),
        ([], "'x-guidance' at #: it is not an object"),
    ],
)
def test_a_spelling_that_is_not_written_is_refused(options: Any, said: str) -> None:
    with pytest.raises(GrammarError) as caught:
        read_lark(f"start: %json {json.dumps({'x-guidance': options, **FINITE})}")
    assert said in caught.value.reason


@pytest.mark.parametrize(
    "options",
    [
        {"whitespace_flexible": False, "lenient": True, "coerce_one_of": True},
        {"item_separator": "\\s{0,2},\\s{0,2}", "key_separator": "\\s?:\\s?", "whitespace_pattern": "[ ]{1,8}"},
        {"json_allowed_escapes": 'utfbrn"\\', "json_allow_general_unicode_escapes": True},
    ],
)
def test_texts_satisfy_the_options_of_llguidance(options: dict[str, Any]) -> None:
    llguidance = pytest.importorskip("llguidance", reason="needs LLGuidance: pip install -c constraints.txt llguidance")
    schema = json.dumps({"x-guidance": options, **FINITE})
    rules = read_lark(f"start: %json {schema}")
    tokenizer = llguidance.LLTokenizer("byte")
    for value in ({"a": 12, "b": True}, {"a": "x"}, {"a": 2}):
        judge = llguidance.LLMatcher(tokenizer, llguidance.LLMatcher.grammar_from_json_schema(schema))
        ids = [*written(value).encode()]
        judged = judge.try_consume_tokens(ids) == len(ids) and judge.is_accepting()
        assert accepts(rules, written(value)) == valid(value, FINITE) == judged
    # They count at the top only, as there.
    inner = {"items": {"x-guidance": {"key_separator": ": "}, "const": 1}, "type": "array", "maxItems": 1}
    assert accepts(read_lark(f"start: %json {json.dumps(inner)}"), "[1]")


STRINGS: dict[str, Any] = {
    "any string": {"type": "string"},
    "names": {"type": "object", "additionalProperties": {"type": "integer"}},
    "lengths": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 2}, "maxItems": 2},
    "literals": {"enum": ["a\n", "b", 'c"', "\t"]},
    "pattern": {"type": "string", "pattern": "^[a\n\t]*$"},
}
VALUES = [
    *("", "a", "\n", "\t", "a\n", "\\", '"', 'c"', "\b", "\x1e", "é\n", "b"),
    *({}, {"a": 1}, {"\n": 1}, {"\t": 1}, {"\x00": 1}),
    *([], ["\n"], ["a\t", "\n"], ["\x1e"], ["aaa"]),
]


@pytest.mark.parametrize("name", STRINGS)
@pytest.mark.parametrize("escapes", ["nt", "n", "", 'nrbtf\\"', "u", None])
def test_no_string_needs_an_escape_that_an_option_forbids(name: str, escapes: str | None) -> None:
    schema = {**STRINGS[name], "x-guidance": {"json_allowed_escapes": escapes, "whitespace_flexible": False}}
    texts = [json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in VALUES]
    rules = read_lark(f"start: %json {json.dumps(schema)}")
    found = {text: accepts(rules, text) for text in texts}
    # Without any escape, LLGuidance drops the line feed of "a\\n" and takes "a", which the schema forbids.
    if (name, escapes) != ("literals", ""):
        assert found == guidance_reads(f"start: %json {json.dumps(schema)}", texts)
    allowed = 'nrbtf\\"u' if escapes is None else escapes
    for text, value in zip(texts, VALUES, strict=True):
        needed = {escape[1] for escape in re.findall(r"\\.", text)}
        assert found[text] == (valid(value, STRINGS[name]) and needed <= {*allowed}), text
