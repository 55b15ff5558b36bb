"""Long strings in many places are called: they share one automaton, and still say what copies of it would say."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from tests.automata.linked import compiled, written
from tests.json_schema.judge import judge
from tests.vocabularies import tekken

# Not a `maxLength`, nor one repetition: these would be counted.
MEMBERS = {f"name {i}": {"type": "string", "pattern": "^[^]{0,30}[^]{0,30}$"} for i in range(8)}


@pytest.mark.parametrize("closed", [True, False])
def test_strings_that_are_called_say_what_instances_say(closed: bool) -> None:
    schema = {"type": "object", "properties": MEMBERS, "additionalProperties": not closed, "required": ["name 2"]}
    constraint = lk.JsonSchema(schema, tekken())
    assert constraint.automaton.nesting.strings
    assert constraint.automaton.states < compiled(schema, share=False).states / 2
    valid = judge(schema).is_valid
    for seed, text in enumerate(("", "x" * 60, "x" * 61, '\n"\\\u0001é' * 10, "é" * 60, "é" * 61, '","' * 20)):
        for document in (
            {"name 2": text},
            {"name 0": text, "name 2": "a", "name 7": text},
            {"name 2": text, "x": [text]},
        ):
            assert written(document, constraint, seed) == valid(document)


def test_they_do_not_count_as_nesting() -> None:
    schema = {"properties": {**MEMBERS, "x": {"$ref": "#"}}, "type": "object", "additionalProperties": False}
    constraint = lk.JsonSchema(schema, tekken(), max_depth=2)
    assert constraint.automaton.nesting.strings
    for inner in ({}, {"name 0": "a"}, {"name 0": "a", "name 1": "b"}):
        assert written({"x": inner}, constraint, 0)
        assert written({"x": {"x": {}}}, constraint, 0) == written({"x": {"x": inner}}, constraint, 0)
    assert not written({"x": {"x": {"x": {"name 0": "a"}}}}, constraint, 0)


def test_a_schema_with_called_strings_is_still_finite_in_a_chain() -> None:
    schema = {"type": "object", "properties": MEMBERS, "additionalProperties": False}
    constraint = lk.JsonSchema(schema, tekken())
    assert constraint.is_finite
    assert constraint.automaton.nesting.strings
    both = lk.chain(constraint, lk.Regex(r'\{"name [12]":"a*"(,"name 4":"b")?\}', tekken())).processors[0]
    for document, legal in (({"name 1": "aa"}, True), ({"name 2": "", "name 4": "b"}, True), ({"name 3": "a"}, False)):
        assert written(document, both, 0) == legal
    # Had it been two masks one after another, a string could go on after which one of them allows nothing.
    assert not written({"name 1": "a" * 61}, both, 0)


def test_the_state_inside_of_a_called_string_is_saved(tmp_path: Any) -> None:
    schema = {"type": "object", "properties": MEMBERS, "additionalProperties": False}
    constraint = lk.JsonSchema(schema, tekken())
    context = lk.Context.of([[]], vocabulary_size=tekken().size)
    ids = [tekken().trie.tokens_below(tekken().trie.path(bytes([b]))[0])[0] for b in b'{"name 3":"ab']
    state = constraint.advance(constraint.init_state(context), torch.tensor([ids]))
    assert (state.stack > 0).sum() == 1
    lk.save_state(tmp_path / "state", state, constraint)
    loaded = lk.load_state(tmp_path / "state", constraint)
    for one in (state, loaded):
        masked = constraint.process_logits(one, torch.zeros(1, tekken().size), context)[1]
        assert masked[0, tekken().trie.tokens_below(tekken().trie.path(b'"')[0])[0]] == 0


# Tokens that end strings and brackets, and go on.
