"""A name that one branch of a schema lists and another takes as any name, and values likewise: both branches are followed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations, count, permutations, product
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.compiler.characters.alphabet import Alphabet
from logitkit.compiler.characters.symbols import Symbol
from logitkit.compiler.nested_grammars.nested_grammar import Strings
from logitkit.compiler.nested_grammars.part import Bracket, Part
from logitkit.compiler.nested_grammars.unfolding import Row, Unfolding
from logitkit.errors import UnsupportedSchema
from logitkit.languages import either, json_schema, regex
from tests.json_schema.acceptance import BYTES
from tests.json_schema.judge import judge
from tests.vocabularies import sentencepiece_32k, tekken

STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def needs(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*properties]}


# In each, one bracket begins objects of several branches, which are called all at once.
SCHEMAS: dict[str, Any] = {
    "exactly one of two": {"oneOf": [needs(a=needs(b=STRING, c=needs(a=STRING))), needs(b=STRING)]},
    "any name beside a listed one": {
        "anyOf": [
            {"type": "object", "additionalProperties": {"type": "object", "required": ["c"]}},
            needs(b=needs(a=STRING)),
        ]
    },
    "recursive branches": {
        "$defs": {
            "node": {
                "anyOf": [
                    needs(a={"$ref": "#/$defs/node"}),
                    {
                        "type": "object",
                        "properties": {"b": {"$ref": "#/$defs/node"}},
                        "additionalProperties": {"maxLength": 1, "type": "string"},
                    },
                    INTEGER,
                ]
            }
        },
        "$ref": "#/$defs/node",
    },
    "items of two recursive kinds": {
        "$defs": {
            "one": {"type": "object", "properties": {"a": {"$ref": "#/$defs/one"}}},
            "other": {"properties": {"b": {"enum": ["x", "xyz"]}, "c": {"$ref": "#/$defs/other"}}, "required": ["b"]},
        },
        "items": {"anyOf": [{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/other"}]},
        "type": "array",
        "maxItems": 1,
    },
}
NAMES = ("a", "b", "c")
INNER: list[Any] = [
    dict(zip(names, values, strict=True))
    for size in range(3)
    for names in combinations(NAMES, size)
    for values in product([1, "x", {"a": "x"}, {"b": "x"}], repeat=size)
]
DOCUMENTS: list[Any] = [
    *({name: value} for name in NAMES for value in INNER),
    *({"a": value, "b": other} for value in INNER[:12] for other in [*INNER[:12], "x", 1]),
    *({"b": value, "c": other} for value in (*INNER[:9], "x") for other in (*INNER[:9], "xyz")),
]


def texts(value: Any) -> Iterator[str]:
    """Write a value with its members in every order."""
    if not isinstance(value, dict):
        yield json.dumps(value)
        return
    for names in permutations(value):
        for members in product(*(texts(value[name]) for name in names)):
            yield "{" + ",".join(f'"{name}":{member}' for name, member in zip(names, members, strict=True)) + "}"


ABC = ["", "a", "ab", "abc", "abcd", "abcdef", 1]

_fresh = count(1)


@contextmanager
def written_in_place() -> Iterator[None]:
    """Take each string and each name for one that begins like other text, so that it is written in place."""

    really_alike = Unfolding._alike

    def alike(self: Unfolding, row: Row) -> set[int]:
        strings = [call for call in row.calls if isinstance(self.grammar.rules[call], Strings)]
        return {*really_alike(self, row), *map(Symbol.call, strings), *map(Symbol.word, row.words)}

    with mock.patch.object(Unfolding, "_alike", alike):
        yield


def compiled(schema: Any, vocabulary: lk.Vocabulary, **options: Any) -> lk.JsonSchema:
    # Limits that were never given are part of the key, so that nothing compiled before is found.
    limits = lk.Limits(states=500_000 + next(_fresh), work=200_000_000)
    return lk.JsonSchema(schema, vocabulary, limits=limits, **options)


@pytest.mark.parametrize("name", SCHEMAS)
def test_verdicts_are_those_of_jsonschema(name: str) -> None:
    """A document is accepted in one of the orders of its members at least."""
    schema = SCHEMAS[name]
    constraint = compiled(schema, BYTES)
    judged = judge(schema)
    verdicts = set()
    for document in DOCUMENTS:
        listed = schema.get("type") == "array"
        expected = judged.is_valid([document] if listed else document)
        verdicts.add(expected)
        assert any(constraint.matches(f"[{text}]" if listed else text) for text in texts(document)) == expected, (
            document
        )
    assert verdicts == {True, False}


@pytest.mark.parametrize(
    ("name", "closing"),
    [*((name, False) for name in SCHEMAS), ("exactly one of two", 60), ("recursive branches", 60)],
)
def test_masks_are_those_of_strings_written_in_place(name: str, closing: int | bool) -> None:
    vocabulary = tekken() if name == "exactly one of two" else sentencepiece_32k()
    called = compiled(SCHEMAS[name], vocabulary, closing=closing)
    language, limits = json_schema(SCHEMAS[name]), [lk.Limits(states=500_000 + next(_fresh)) for _ in range(2)]
    as_language = language.constraint(vocabulary, closing=closing, limits=limits[0])
    with written_in_place():
        in_place = language.constraint(vocabulary, closing=closing, limits=limits[1])
    # It is known already what tokens do in strings.
    assert max(called.automaton.work, as_language.automaton.work) < in_place.automaton.work / 2
    compared = called, as_language, in_place
    rng = random.Random(name)
    for _ in range(6):
        context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
        states = [constraint.init_state(context) for constraint in compared]
        for _ in range(40):
            zeros = torch.zeros(1, vocabulary.size)
            masks = [c.process_logits(s, zeros.clone(), context)[1] for c, s in zip(compared, states, strict=True)]
            assert torch.equal(masks[0], masks[1])
            assert torch.equal(masks[0], masks[2])
            legal = torch.nonzero(masks[0][0] == 0).ravel().tolist()
            # Tokens with quotes and letters of names lead to where the branches differ.
            marked = [t for t in legal if (vocabulary.tokens[t] or b"")[:2].strip(b'"abcxy:{},[]1') == b""]
            token = rng.choice(marked if marked and rng.random() < 0.8 else legal)
            if token in vocabulary.eos_ids:
                break
            states = [c.advance(s, torch.tensor([token])) for c, s in zip(compared, states, strict=True)]


def test_a_large_union_compiles_within_the_limits() -> None:
    """If all strings were written in place as one name is both, this would be refused."""
    events = [needs(kind={"const": f"event{i}"}, **{f"field{j}": STRING for j in range(i, i + 6)}) for i in range(30)]
    schema = {
        "anyOf": [
            {"type": "array", "items": {"anyOf": events}},
            {"type": "array", "items": needs(kind=needs(a=STRING))},
        ]
    }
    constraint = lk.JsonSchema(schema, tekken())
    assert constraint.automaton.nbytes < 2 * 2**20
    document = {"kind": "event7"} | {f"field{j}": "kind" for j in range(7, 13)}
    for one in (document, document | {"kind": "event8"}, {"kind": {"a": "x"}}, {"kind": {"b": "x"}}):
        assert constraint.matches(json.dumps([one], separators=(",", ":"))) == judge(schema).is_valid([one])


# Here all strings that one end of a union of strings has are also words, so that no text leads to this end.
ENDLESS: list[Any] = [
    {"type": "object", "maxProperties": 2},
    {"type": "object", "properties": {"ab": True}},
]


@pytest.mark.parametrize("whitespace", ["compact", "bounded"])
def test_lengths_are_counted_beside_names_of_several_branches(whitespace: Any) -> None:
    text = {"type": "string", "minLength": 2, "maxLength": 40}
    beside = compiled({"anyOf": [*ENDLESS, text]}, BYTES, whitespace=whitespace)
    in_language = json_schema({"anyOf": [*ENDLESS, text]}).constraint(BYTES)
    inside = compiled(needs(a=text, b={"anyOf": ENDLESS}), BYTES)
    for length in (0, 1, 2, 40, 41, 100):
        given = json.dumps("x" * length)
        assert beside.matches(given) == in_language.matches(given) == (2 <= length <= 40)
        assert inside.matches(f'{{"a":{given},"b":{{"ab":1}}}}') == (2 <= length <= 40)


def test_lengths_beside_a_listed_text_that_is_followed_otherwise() -> None:
    text = {"type": "string", "maxLength": 100}
    schema = {"anyOf": [needs(a={"const": "xxx"}, b={"const": 1}), needs(a=text, b={"const": 2}, c=text)]}
    for branch in schema["anyOf"]:
        branch["additionalProperties"] = False
    constraint = compiled(schema, BYTES)
    assert constraint.automaton.counting is not None
    judged = judge(schema)
    for size, other, b in product((2, 3, 4, 100, 101), (100, 101), (1, 2)):
        for document in ({"a": "x" * size, "b": b, "c": "y" * other}, {"a": "x" * size, "b": b}):
            whole = json.dumps(document, separators=(",", ":"))
            assert constraint.matches(whole) == judged.is_valid(document), document


def test_lengths_are_counted_beside_a_leaf_of_which_a_part_is_never_entered() -> None:
    """`abc` is listed in the last branch. It is all that the first pattern has beside the second one."""

    def branch(a: Any, b: int) -> dict[str, Any]:
        return {**needs(a=a, b={"const": b}), "additionalProperties": {"type": "string", "maxLength": 60}}

    patterns = ({"type": "string", "pattern": pattern} for pattern in ("^(abc|d+)$", "^d+$"))
    schema = {"anyOf": [branch(a, b) for b, a in enumerate([*patterns, {"const": "abc"}])]}
    constraint = compiled(schema, BYTES)
    assert constraint.automaton.counting is not None
    judged = judge(schema)
    for a, b, size in product(("abc", "ab", "abcd", "d", "dd"), range(3), (60, 61)):
        document = {"a": a, "b": b, "z": "x" * size}
        text = json.dumps(document, separators=(",", ":"))
        assert constraint.matches(text) == judged.is_valid(document), document


@given(st.data())
def test_lengths_beside_listed_texts(data: st.DataObject) -> None:
    """Texts that are listed, and strings of limited lengths, in members that several branches know."""
    some = st.sampled_from(["", "a", "ab", "abc", "abcd", "abcde"])
    least = data.draw(st.integers(0, 4))
    lengths = {"type": "string", "minLength": least, "maxLength": data.draw(st.integers(least, 5))}
    listed = {"enum": data.draw(st.lists(some, min_size=1, max_size=4, unique=True))}
    known = data.draw(st.sampled_from([needs(a=listed), needs(a=needs(b=listed)), needs(b=lengths)]))
    other = {"type": "object", "additionalProperties": data.draw(st.sampled_from([lengths, needs(b=lengths), {}]))}
    branches = data.draw(st.permutations([known, other, {"type": "object", "maxProperties": 1}]))
    schema = {"type": "object", "properties": {"a": {data.draw(st.sampled_from(["anyOf", "oneOf"])): branches}}}
    try:
        constraint = compiled(schema, BYTES)
    except UnsupportedSchema:
        return
    judged = judge(schema)
    for document in ({"a": {name: inner}} for name in "ab" for value in ABC for inner in (value, {"b": value})):
        expected = judged.is_valid(document)
        assert any(constraint.matches(text) for text in texts(document)) == expected, document


@pytest.mark.parametrize("names", [["x" * 2000 + "a", "x" * 2000 + "b"], ["x" * i for i in range(1, 60)]])
def test_names_with_long_beginnings_in_common(names: list[str]) -> None:
    constraint = lk.JsonSchema({"properties": dict.fromkeys(names, INTEGER), "type": "object"}, BYTES)
    assert constraint.matches(json.dumps({names[-1]: 1}).replace(" ", ""))
    assert not constraint.matches(json.dumps({names[-1]: "1"}).replace(" ", ""))


def test_languages_whose_calls_cannot_be_distinguished_are_written_in_place() -> None:
    branches = [
        {**needs(v={**needs(**{f"k{i}": INTEGER}), "additionalProperties": False}, w={"const": i})} for i in range(6)
    ]
    for branch in branches:
        branch["additionalProperties"] = False
    constraint = either(json_schema({"anyOf": branches}), regex(r"\{x\}")).constraint(BYTES)
    assert constraint.matches("{x}")
    assert constraint.matches('{"v":{"k1":1},"w":1}')
    assert not constraint.matches('{"v":{"k1":1},"w":2}')


def test_a_part_has_other_numbers_of_calls_and_words_for_another_grammar() -> None:
    bracket = Bracket(((0, 0),), ((1, 2),), excluded=(3,))
    part = Part(None, Alphabet.of([]), [{'"': bracket}], [{3: 1, 4: 1}], [{}], [0])
    found = part.renumbered({0: 5}, {3: 7})
    assert found.brackets == [{'"': Bracket(((5, 0),), ((1, 2),), excluded=(7,))}]
    assert found.words == [{7: 1, 4: 1}]
