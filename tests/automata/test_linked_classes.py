"""Automata that are put together from fragments do what those do that are computed from the whole vocabulary."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import logitkit as lk
from logitkit.budget import one_budget
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from logitkit.compiler.bytes.string_fragment import StringFragment
from logitkit.compiler.tokens.compile import pushdown_automaton
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.compiler.tokens.tables.token_table import STAY
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.errors import ConfigurationError, PatternTooLarge, UnsupportedSchema
from tests.automata.linked import SMALL, compiled, written
from tests.examples import examples
from tests.json_schema.generated import schemas
from tests.json_schema.judge import judge
from tests.vocabularies import sentencepiece_32k, tekken

SCHEMAS: dict[str, Any] = {
    "anything": {},
    "names beside others": {"properties": {"a": {"type": "string"}, "id": {"type": "boolean"}, "\n\u0001é": {}}},
    "names that must not be there": {"properties": {"ab": False, "abc": {"type": "null"}, "b": False}},
    "names by patterns": {"patternProperties": {"^x": {"type": "string"}}, "properties": {"xa": {"type": "null"}}},
    "recursion": {
        "properties": {
            "a": {"type": "string", "maxLength": 3},
            "next": {"$ref": "#"},
            "list": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}},
        },
        "required": ["a"],
    },
    "strings that are called": {
        "properties": {f"name {i}": {"type": "string", "maxLength": 60} for i in range(5)} | {"x": {"$ref": "#"}}
    },
}

# The meaning of a target: a state, or all that happens to the stack.
Meaning = Any


def meanings(automaton: TokenAutomaton) -> dict[int, tuple[tuple[int, Meaning], ...]]:
    """Return what each living class does in each state, without regard to how actions and classes are numbered."""
    nesting, first = automaton.nesting, automaton.first_frame
    rows: list[dict[int, int]] = []
    for state in range(automaton.states):
        row = slice(automaton.row_start[state], automaton.row_start[state + 1])
        listed = dict(zip(automaton.row_class[row].tolist(), automaton.row_target[row].tolist(), strict=True))
        below = state if automaton.fallback is None else int(automaton.fallback[state])
        if state < first:
            # An automaton without a stack lists only exceptions.
            defaults = {c: state if d == STAY else d for c, d in enumerate(automaton.default.tolist()) if d != DEAD}
            listed = {**defaults, **listed}
        # A state falls back to one of an instance, which comes before it.
        rows.append({**rows[below], **listed} if below != state else listed)
    suffixes: dict[int, Meaning] = {0: ()}

    def meaning(target: int) -> Meaning:
        if target < automaton.states:
            return target
        which = target - automaton.states
        pushed = tuple(frame for frame in nesting.pushed[which].tolist() if frame)
        return int(nesting.state[which]), pushed, int(nesting.height[which]), rest(int(nesting.rest[which]))

    def rest(symbol: int) -> Meaning:
        if symbol not in suffixes:
            frames = range(first, automaton.states)
            suffixes[symbol] = tuple(
                (frame, meaning(rows[frame][symbol])) for frame in frames if rows[frame].get(symbol)
            )
        return suffixes[symbol]

    found: dict[int, list[tuple[int, Meaning]]] = {}
    for state in range(2, first):
        for symbol, target in rows[state].items():
            if target:
                found.setdefault(symbol, []).append((state, meaning(target)))
    return {symbol: tuple(entries) for symbol, entries in found.items()}


def check(dfa: NestedDfa, vocabulary: lk.Vocabulary) -> None:
    with one_budget(10**9):
        linked = pushdown_automaton(dfa, vocabulary, SCHEMA_LIMITS, "the schema")
    # Without knowing instances, all ends of all tokens are looked at. That does not know called strings either.
    whole = pushdown_automaton(replace(dfa, instances=None), vocabulary, lk.Limits(work=10**9), "the schema")
    one, other = meanings(linked), meanings(whole)
    pairs = np.unique(np.stack([linked.class_of.astype(np.int64), whole.class_of.astype(np.int64)]), axis=1)
    assert all(one.get(a) == other.get(b) for a, b in pairs.T.tolist())


@pytest.mark.parametrize("make", [tekken, sentencepiece_32k])
@pytest.mark.parametrize("name", SCHEMAS)
def test_they_do_as_those_of_the_whole(name: str, make: Callable[[], lk.Vocabulary]) -> None:
    dfa = compiled(SCHEMAS[name], share=False)
    assert dfa.instances is not None
    check(dfa, make())


@settings(max_examples=examples(60), deadline=None)
@given(schemas)
def test_generated_ones_too(schema: Any) -> None:
    try:
        dfa = compiled(schema, share=False)
    except (ConfigurationError, PatternTooLarge, UnsupportedSchema):
        return
    if dfa.instances is not None and dfa.states < 1500:
        check(dfa, SMALL)


def of_one(pattern: str, value: Any) -> Any:
    names = {"patternProperties": {pattern: value}, "additionalProperties": False}
    return {"type": "object", **names, "maxProperties": 1}


def test_sets_with_one_automaton_may_end_differently() -> None:
    integer, null, boolean = ({"type": kind} for kind in ("integer", "null", "boolean"))

    def four(*values: Any) -> Any:
        return {"anyOf": [of_one(p, v) for p, v in zip(("^[ps]", "^s", "^q", "^r"), values, strict=True)]}

    members = {"one": four(integer, null, boolean, null), "two": four(integer, null, null, boolean)}
    schema = {"type": "object", "properties": members, "additionalProperties": False}
    constraint = lk.JsonSchema(schema, SMALL)
    for member in ("one", "two"):
        for letter in "pqrs":
            for value in (1, None, True):
                document = {member: {letter + "x": value}}
                assert written(document, constraint, 1) == judge(schema).is_valid(document)


def test_a_token_that_ends_a_name_and_a_call_is_legal_where_its_bytes_are() -> None:
    def objects(inner: Any, name: str) -> Any:
        others = {"additionalProperties": {"$ref": name}}
        return {"type": ["object", "array"], "maxItems": 0, "properties": {"a": inner}, **others}

    def pair(name: str, last: Any) -> Any:
        return {"type": "array", "prefixItems": [{"$ref": name}, {"const": last}], "items": False, "minItems": 2}

    schema = {
        "anyOf": [pair("#/$defs/o1", None), pair("#/$defs/o2", True)],
        "$defs": {
            "o1": objects({"type": "array", "maxItems": 0}, "#/$defs/o1"),
            "o2": objects({"type": "integer"}, "#/$defs/o2"),
        },
    }
    long = (b'":[]},true', b'a":[]},true', b'"a":[]},true', b'":[]},null')
    vocabulary = lk.Vocabulary([*[bytes([b]) for b in range(256)], *long, None], eos_ids=[256 + len(long)])
    constraint = lk.JsonSchema(schema, vocabulary)
    dfa = constraint.nested_dfa()
    for said, piece in ((b'[{"a', 0), (b'[{"', 1), (b"[{", 2), (b'[{"a', 3), (b'[{"b', 0)):
        context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
        state = constraint.advance(constraint.init_state(context), torch.tensor([list(said)]))
        masked = constraint.process_logits(state, torch.zeros(1, vocabulary.size), context)[1]
        assert (masked[0, 256 + piece] == 0).item() == dfa.accepts(said + long[piece] + b"]")


def test_a_token_may_open_and_close_any_number_of_brackets() -> None:
    deep = b"[" * 65 + b"]" * 65
    vocabulary = lk.Vocabulary([*[bytes([b]) for b in range(256)], deep, None], eos_ids=[257])
    for depth in (64, 65):
        constraint = lk.JsonSchema({}, vocabulary, max_depth=depth)
        context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
        masked = constraint.process_logits(constraint.init_state(context), torch.zeros(1, vocabulary.size), context)[1]
        assert (masked[0, 256] == 0).item() == (depth == 65)


def test_a_state_does_the_same_without_falling_back() -> None:
    automaton = lk.JsonSchema(SCHEMAS["names beside others"], tekken()).automaton
    assert automaton.fallback is not None
    whole = automaton.without_fallback()
    assert whole.fallback is None
    assert len(whole.row_class) > len(automaton.row_class)
    classes = range(automaton.classes)
    for state in range(2, automaton.first_frame):
        assert [whole.target(state, c) for c in classes] == [automaton.target(state, c) for c in classes]


def test_any_number_of_sets_of_names_is_told_apart() -> None:
    kinds = ("boolean", "null", "integer", "string", "array", "object")
    schema = {
        "type": "object",
        "patternProperties": {f"^{letter}": {"type": kind} for letter, kind in zip("abcdef", kinds, strict=True)},
    }
    dfa = compiled(schema, share=False)
    assert dfa.instances is not None
    for letter in "abcdefg":
        values: list[Any] = [True, None, 1, "s", [], {}]
        for value in values:
            text = json.dumps({letter + "x": value}, separators=(",", ":")).encode()
            assert dfa.accepts(text) == judge(schema).is_valid({letter + "x": value})


def test_fragments_that_differ_in_their_marks_are_two() -> None:
    step, byte_class = np.zeros((3, 1), np.int32), np.zeros(256, np.int64)
    assert StringFragment(step, byte_class, (1, 2)).key != StringFragment(step, byte_class, (2, 1)).key


def test_what_falls_back_is_intersected() -> None:
    schema = {"type": "object", "properties": {"ab": {"type": "integer"}}, "additionalProperties": {"type": "string"}}
    constraint = lk.JsonSchema(schema, tekken())
    assert constraint.is_finite
    assert constraint.automaton.fallback is not None
    both = lk.chain(constraint, lk.Regex(r'\{"a.":("x"|1)\}', tekken())).processors[0]
    for document in ({"ab": 1}, {"ab": "x"}, {"ac": 1}, {"ac": "x"}, {"b": "x"}, {"a": "x"}):
        expected = judge(schema).is_valid(document) and len(next(iter(document))) == 2
        assert written(document, constraint, 0) == judge(schema).is_valid(document)
        assert written(document, both, 0) == expected
