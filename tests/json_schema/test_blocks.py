"""Long runs of items and members are written in blocks that are called; they allow what items that are written out allow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit.constraints.json_schema import SCHEMA_LIMITS
from logitkit.languages import json_schema, tag
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.walk import Walk
from tests.automata.linked import written
from tests.json_schema.block_schemas import (
    MARKED,
    RECORD,
    SCHEMAS,
    SMALL,
    TOKENS,
    TREE,
    WRITTEN_OUT,
    array,
    in_blocks_and_out,
    small_blocks,
)
from tests.json_schema.judge import judge
from tests.json_schema.walks import walk
from tests.vocabularies import tekken


@pytest.mark.parametrize("items", [1, 2, 3])
@pytest.mark.parametrize("name", SCHEMAS)
def test_blocks_allow_what_items_that_are_written_out_allow(name: str, items: int) -> None:
    called, out = in_blocks_and_out(*SCHEMAS[name], items)
    assert out.automaton.nesting.blocks == 0
    assert called.automaton.nesting.blocks or items > 1 or name in WRITTEN_OUT
    classes = np.stack([called.automaton.class_of, out.automaton.class_of])
    # One token of each kind.
    tokens = np.unique(classes, axis=1, return_index=True)[1]
    start = Walk.start(called.automaton), Walk.start(out.automaton)
    seen, todo = {(start[0].key, start[1].key)}, [start]
    while todo and len(seen) < 3000:
        one, other = todo.pop(len(todo) // 2)
        legal = one.legal()[called.automaton.class_of]
        assert np.array_equal(legal, other.legal()[out.automaton.class_of])
        assert legal.any()
        for token in tokens[legal[tokens]].tolist():
            pair = one.after(token), other.after(token)
            key = pair[0].key, pair[1].key
            if pair[0].is_live and key not in seen:
                seen.add(key)
                todo.append(pair)


def test_a_token_that_ends_a_block_opens_no_more_brackets_than_are_allowed() -> None:
    # A block is not a bracket, so the end of one makes no room for another bracket.
    vocabulary = lk.Vocabulary([*[bytes([b]) for b in range(256)], b",[[[", None], eos_ids=[257])
    trees = {**array({"$ref": "#/$defs/tree"}, maxItems=1000), "$defs": {"tree": TREE}}
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    for closing in (False, 500):
        constraint = lk.JsonSchema(trees, vocabulary, max_depth=2, closing=closing)
        state = constraint.init_state(context)
        # The first block, of 16 items, ends with the comma after the 17th.
        for byte in b"[" + b",".join([b"[]"] * 20):
            assert not constraint.allowed_tokens(state)[0, 256]
            state = constraint.advance(state, torch.tensor([byte]))


def masks_of(constraint: lk.JsonSchema, ids: list[int], by_tensors: bool) -> list[torch.Tensor]:
    """Return what is legal before each of some tokens, and after them, in both rows of a batch."""
    context = lk.Context.of([[], []], vocabulary_size=constraint.vocabulary.size)
    with mock.patch("logitkit.runtime.constraint.by_tensors", return_value=by_tensors):
        state, found = constraint.init_state(context), []
        for token in [*ids, -1]:
            masked = constraint.process_logits(state, torch.zeros(2, constraint.vocabulary.size), context)[1]
            found.append(masked.isfinite())
            # The second row stands still.
            state = constraint.advance(state, torch.tensor([token, -1]))
        return found


@pytest.mark.parametrize("name", SCHEMAS)
def test_tensors_say_what_the_host_says(name: str) -> None:
    called, _ = in_blocks_and_out(*SCHEMAS[name])
    for seed in range(3):
        _, ids, _ = walk(called, seed, 40)
        host, tensors = (masks_of(called, ids, by_tensors) for by_tensors in (False, True))
        assert all(torch.equal(one, other) for one, other in zip(host, tensors, strict=True))


def test_a_token_that_ends_blocks_and_opens_brackets_keeps_to_the_depth() -> None:
    # Such a token pops the frames of blocks, which do not count as nesting, and pushes those of trees, which do.
    members = {"a": array({"type": "null"}, maxItems=30), "b": {"$ref": "#/$defs/tree"}}
    schema = {"type": "object", "properties": members, "required": ["a", "b"], "$defs": {"tree": TREE}}
    opening = [b'],"b":' + b"[" * n for n in (1, 2, 3)]
    vocabulary = lk.Vocabulary([*TOKENS, *opening, None], eos_ids=[len(TOKENS) + 3])
    tokens = [len(TOKENS) + n for n in range(3)]
    for items in (1, 2, 16):
        with small_blocks(2, items):
            limits = replace(SCHEMA_LIMITS, work=SCHEMA_LIMITS.work + items)
            constraint = lk.JsonSchema(schema, vocabulary, max_depth=2, limits=limits)
        assert constraint.automaton.nesting.blocks
        for count in (1, 2, 5, 20, 29):
            ids = list(b'{"a":[' + b",".join([b"null"] * count))
            for by_tensors in (False, True):
                legal = masks_of(constraint, ids, by_tensors)[-1][0, tokens].tolist()
                assert legal == [True, True, False]


@pytest.mark.parametrize("most", [200, 5000, 10**6])
def test_a_bound_costs_little_however_large_it_is(most: int) -> None:
    schema = array({"type": "integer"}, minItems=most - 100, maxItems=most)
    constraint = lk.JsonSchema(schema, tekken())
    assert constraint.automaton.states < 1000
    if most > 10**5:
        return
    valid = judge(schema).is_valid
    for seed, length in enumerate((0, 1, most - 101, most - 100, most - 50, most, most + 1)):
        items = [number * 7919 % 1000 for number in range(length)]
        assert written(items, constraint, seed) == valid(items)


@pytest.mark.parametrize("most", [49, 200, 700])
def test_verdicts_on_records_and_members(most: int) -> None:
    record = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
        "required": ["id"],
    }
    for schema in (
        array(record, minItems=3, maxItems=most),
        {"type": "object", "additionalProperties": record, "maxProperties": most},
    ):
        constraint, valid = lk.JsonSchema(schema, tekken()), judge(schema).is_valid
        assert constraint.automaton.nesting.blocks
        for seed, length in enumerate((2, 3, 17, 18, most - 1, most, most + 1)):
            items = [{"id": number, "name": "a" * (number % 5), "x": [{}]} for number in range(length)]
            value = items if schema["type"] == "array" else {f"m{i}": item for i, item in enumerate(items)}
            assert written(value, constraint, seed) == valid(value)


def test_marked_records_cost_little() -> None:
    schema = array(MARKED, minItems=2, maxItems=500, contains={"properties": {"m": {"const": True}}}, maxContains=2)
    constraint, valid = lk.JsonSchema(schema, tekken()), judge(schema).is_valid
    tagged = tag("<x>", json_schema(schema), "</x>").constraint(tekken())
    assert max(constraint.automaton.states, tagged.automaton.states) < 10_000
    for seed, (length, marked) in enumerate(
        ((1, 1), (2, 0), (2, 2), (3, 3), (100, 1), (100, 2), (100, 3), (500, 1), (501, 1))
    ):
        items = [{"s": "a" * (i % 10), "m": i * 37 % length < marked} for i in range(length)]
        assert written(items, constraint, seed) == valid(items)


def test_a_schema_with_blocks_is_still_finite_in_a_chain() -> None:
    constraint = lk.JsonSchema(array({"type": "integer"}, maxItems=60), tekken())
    assert constraint.automaton.nesting.blocks
    assert constraint.is_finite
    assert lk.JsonSchema(array(RECORD, maxItems=60), tekken()).is_finite
    both = lk.chain(constraint, lk.Regex(r"\[(1,)*1\]", tekken())).processors[0]
    assert written([1] * 60, both, 0)
    assert not written([1] * 61, both, 0)
    assert not written([1] * 59 + [2], both, 0)


def test_a_text_before_it_does_not_change_the_count() -> None:
    schema = lk.JsonSchema(array({"type": "null"}, minItems=49, maxItems=60), SMALL)
    assert schema.automaton.nesting.blocks
    constraint = lk.Then(lk.Regex("a*", SMALL), schema, "b")
    context = lk.Context.of([[]], vocabulary_size=SMALL.size)
    for length in (48, 49, 60, 61):
        text = b"aab[" + b",".join([b"null"] * length) + b"]"
        state = constraint.advance(constraint.init_state(context), torch.tensor([list(text)]))
        masked = constraint.process_logits(state, torch.ones(1, SMALL.size), context)[1]
        assert bool(masked[0, SMALL.eos_ids[0]] == 1) == (49 <= length <= 60)


def test_where_some_byte_has_no_token_items_are_written_out() -> None:
    fewer = lk.Vocabulary([b"[", b"]", b",1", b"1", None], eos_ids=[4])
    constraint = lk.JsonSchema(array({"enum": [1, 11]}, minItems=60, maxItems=61), fewer)
    assert constraint.automaton.nesting.blocks == 0
    context = lk.Context.of([[]], vocabulary_size=5)
    for length in (59, 60, 61, 62):
        state = constraint.advance(constraint.init_state(context), torch.tensor([[0, 3, *[2] * (length - 1), 1]]))
        masked = constraint.process_logits(state, torch.ones(1, 5), context)[1]
        assert bool(masked[0, 4] == 1) == (60 <= length <= 61)


def test_the_place_in_a_block_is_saved(tmp_path: Path) -> None:
    constraint = lk.JsonSchema(array({"type": "null"}, maxItems=400), SMALL)
    context = lk.Context.of([[]], vocabulary_size=SMALL.size)
    state = constraint.advance(constraint.init_state(context), torch.tensor([list(b"[" + b"null," * 380)]))
    assert (state.stack > 0).any()
    lk.save_state(tmp_path / "state", state, constraint)
    loaded = lk.load_state(tmp_path / "state", constraint)
    for more, legal in ((1, True), (20, True), (21, False)):
        after = constraint.advance(loaded, torch.tensor([list(b",".join([b"null"] * more) + b"]")]))
        assert bool(constraint.is_dead(after)[0]) != legal


def test_steps_in_blocks_are_traced_in_one_graph() -> None:
    called, _ = in_blocks_and_out(*SCHEMAS["items that recur"])
    context = lk.Context.of([[], []], vocabulary_size=SMALL.size)
    logits = torch.zeros(2, SMALL.size)

    def step(state: Any, tokens: torch.Tensor) -> tuple[Any, torch.Tensor]:
        return called.process_logits(called.advance(state, tokens), logits, context)

    torch.compiler.reset()
    try:
        traced = torch.compile(step, fullgraph=True, backend="eager")
        one = other = called.init_state(context)
        for byte in b"[[],[[]],[],[":
            tokens = torch.tensor([byte, byte])
            (one, mask), (other, expected) = traced(one, tokens), step(other, tokens)
            assert torch.equal(mask, expected)
        assert torch.equal(one.stack, other.stack)
        assert (one.stack > 0).any()
    finally:
        torch.compiler.reset()


def test_files_of_automata_have_the_blocks(tmp_path: Path) -> None:
    made = lk.JsonSchema(array({"type": "null"}, maxItems=100), SMALL).automaton
    files = AutomatonFiles(tmp_path / "own", SMALL.content_key)
    files.write("key", made)
    found = files.read("key")
    assert found is not None
    assert found.equals(made)
    assert (found.content_key, found.nesting.blocks) == (made.content_key, made.nesting.blocks)
    assert found.nesting.blocks > 0
    # Frames of blocks do not count as nesting, so automata that differ in these are not equal.
    other = replace(made, nesting=replace(made.nesting, blocks=made.nesting.blocks - 1))
    assert not found.equals(other)
    assert found.content_key != other.content_key
