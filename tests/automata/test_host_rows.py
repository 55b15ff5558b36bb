"""Numbers of rows are remembered between the steps on the host, and every state still means the same."""

from __future__ import annotations

import sys
import threading
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.errors import StaleAutomaton
from logitkit.protocol.state import leaves, map_tensors, select
from logitkit.runtime.automaton_registry import AutomatonRegistry
from logitkit.runtime.branching_state import BranchingState
from logitkit.runtime.logit_arrays import as_array
from logitkit.runtime.row_mask import RowMask
from tests.examples import examples

TOKENS: list[bytes | None] = [None, b"a", b"b", b"[", b"]", b"[[", b"],", b",", b"1", b"12", b'"', b'a"', None]
VOCABULARY = lk.Vocabulary(TOKENS, eos_ids=[0], size=14, pad_id=12)
LISTS = {"type": "array", "items": {"$ref": "#"}, "maxItems": 2}
CONSTRAINTS: dict[str, Any] = {
    "flat": lk.Regex("a*b?", VOCABULARY),
    "stacks": lk.JsonSchema(LISTS, VOCABULARY, max_depth=3),
    "closing": lk.JsonSchema(LISTS, VOCABULARY, closing=7),
    "counting": lk.JsonSchema({"type": "string", "minLength": 40, "maxLength": 90}, VOCABULARY),
    "branching": lk.Grammar('root ::= "a" root "a" | "[" root "]" | "b"?', VOCABULARY),
}


def fresh(state: Any) -> Any:
    """Return an equal state of other tensors, of which nothing is remembered."""
    return map_tensors(state, Tensor.clone)


def states_of(state: Any) -> Tensor:
    """Return the states of its rows, to be written to: those of their first configurations."""
    found: Tensor = state.states[:, 0] if isinstance(state, BranchingState) else state.at.state
    return found


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [100, 40_000])
def test_rows_of_any_stride_are_masked_in_place(columns: int, dtype: torch.dtype) -> None:
    # Long rows are filled in blocks. llama.cpp's logits are a field of its candidates, so they have a stride.
    tokens = [b"a", *(b"%d" % i for i in range(columns - 2)), None]
    regex = lk.Regex("a", lk.Vocabulary(tokens, eos_ids=[columns - 1]))
    context = lk.Context.of([[]], vocabulary_size=columns)
    fields = torch.ones(columns, 3, dtype=dtype)
    logits = fields[:, 1][None]
    assert regex.process_logits(regex.init_state(context), logits, context)[1] is logits
    assert (fields[:, 1] > -torch.inf).nonzero().tolist() == [[0]]
    assert (fields[:, ::2] == 1).all()


@pytest.mark.parametrize("name", CONSTRAINTS)
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_any_order_of_calls_finds_the_same(name: str, data: st.DataObject) -> None:
    constraint, rows = CONSTRAINTS[name], 3
    context = lk.Context.of([[]] * rows, vocabulary_size=14)
    states = [constraint.init_state(context)]
    token = st.sampled_from([-1, 1, 3, 4, 5, 6, 10, *range(14)])
    for _ in range(data.draw(st.integers(1, 12))):
        state = data.draw(st.sampled_from(states[-3:]))
        call = data.draw(st.sampled_from(["advance", "mask", "select", "write"]))
        if call == "advance":
            many = data.draw(st.booleans())
            tokens = torch.tensor(
                [[data.draw(token) for _ in range(2)] if many else data.draw(token) for _ in range(rows)]
            )
            found = constraint.advance(state, tokens)
            assert same(found, constraint.advance(fresh(state), tokens))
            states.append(found)
        elif call == "select":
            states.append(select(state, torch.tensor([2, 0, 1])))
        elif call == "write":
            # The protocol forbids this, and it is noticed anyway.
            states_of(state)[0] = data.draw(st.sampled_from([0, 1, int(constraint.automaton.start)]))
        logits = torch.randn(rows, 14)
        masked = constraint.process_logits(state, logits.clone(), context)[1]
        assert torch.equal(masked, constraint.process_logits(fresh(state), logits.clone(), context)[1])


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_inference_mode_remembers_nothing(name: str) -> None:
    constraint = CONSTRAINTS[name]
    with torch.inference_mode():
        context = lk.Context.of([[]], vocabulary_size=14)
        state = constraint.init_state(context)
        constraint.process_logits(state, torch.zeros(1, 14), context)
        states_of(state)[0] = 0
        masked = constraint.process_logits(state, torch.zeros(1, 14), context)[1]
    assert (masked > -torch.inf).nonzero().tolist() == [[0, 0]]


def test_a_row_that_stays_keeps_its_state_and_its_mask() -> None:
    constraint = lk.Regex("a*b?", VOCABULARY)
    context = lk.Context.of([[]], vocabulary_size=14)
    state = constraint.advance(constraint.init_state(context), torch.tensor([1]))
    constraint.process_logits(state, torch.zeros(1, 14), context)
    (known,) = constraint.registry.last_rows
    (row,) = known.rows
    mask = row.mask(14)
    assert constraint.advance(state, torch.tensor([1])) is state
    assert constraint.registry.last_rows == [known]
    with mock.patch.object(AutomatonRegistry, "mask", side_effect=AssertionError):
        assert row.mask(14) is mask


@pytest.mark.parametrize(("count", "remembered", "masks"), [(32, True, True), (33, True, False), (1025, False, False)])
def test_many_rows_are_not_remembered(count: int, remembered: bool, masks: bool) -> None:
    constraint = lk.Regex("a*b?", VOCABULARY)
    context, registry = lk.Context.of([[]] * count, vocabulary_size=14), constraint.registry
    state = constraint.init_state(context)
    for _ in range(2):
        masked = constraint.process_logits(state, torch.zeros(count, 14), context)[1]
        assert len(registry.last_rows) == remembered
        with mock.patch.object(AutomatonRegistry, "mask", autospec=True, side_effect=AutomatonRegistry.mask) as asked:
            assert constraint.process_logits(state, torch.zeros(count, 14), context)[1].equal(masked)
        assert asked.call_count == (0 if masks else count)
        assert masked.equal(constraint.process_logits(fresh(state), torch.zeros(count, 14), context)[1])
        state = constraint.advance(state, torch.tensor([1] * (count - 1) + [2]))


def test_threads_that_go_on_from_one_state_do_not_meet() -> None:
    constraint = CONSTRAINTS["stacks"]
    context = lk.Context.of([[]] * 3, vocabulary_size=14)
    start = constraint.init_state(context)
    texts = [torch.tensor([[3, 4], [3, 3], [5, 4]]), torch.tensor([[5, 4], [3, 4], [3, 3]])]
    wanted = [constraint.advance(fresh(start), tokens) for tokens in texts]
    failures: list[Any] = []

    def run(which: int) -> None:
        for _ in range(300):
            state = start
            for column in texts[which].unbind(1):
                constraint.process_logits(state, torch.zeros(3, 14), context)
                state = constraint.advance(state, column)
            if not same(state, wanted[which]):
                failures.append(state)

    threads = [threading.Thread(target=run, args=(number % 2,)) for number in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


def test_a_remembered_row_is_stale_when_its_automaton_is_gone() -> None:
    constraint = lk.Regex("(ba)*gone?|a", VOCABULARY)
    context, registry = lk.Context.of([[]], vocabulary_size=14), constraint.registry
    state = constraint.init_state(context)
    constraint.process_logits(state, torch.zeros(1, 14), context)
    other = lk.Regex("b", VOCABULARY)
    assert other.registry is registry
    del constraint
    with pytest.raises(StaleAutomaton):
        other.process_logits(state, torch.zeros(1, 14), context)


# Few allowed ids, few banned ones, and about as many of both.
SIZE = 400
KINDS = {
    "allowed": np.arange(SIZE) % 40 == 3,
    "banned": np.arange(SIZE) % 40 != 3,
    "ceiling": np.arange(SIZE) % 2 == 0,
}


def mask_of(kind: str) -> RowMask:
    legal = KINDS[kind]
    ids = np.flatnonzero(legal)
    ends, probe = np.array([7, 8]), ids[:2]
    if kind == "allowed":
        return RowMask(SIZE, ends, probe, allowed=ids)
    if kind == "banned":
        return RowMask(SIZE, ends, probe, banned=np.flatnonzero(~legal))
    return RowMask(SIZE, ends, probe, ceiling=np.where(legal, np.float32(np.nan), np.float32(-np.inf)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("width", [SIZE, SIZE + 5])
def test_a_masked_copy_is_that_of_masking_in_place(kind: str, dtype: torch.dtype, width: int) -> None:
    mask, legal = mask_of(kind), torch.from_numpy(KINDS[kind])
    rows = torch.randn(3, width).to(dtype)
    rows[1, 1::3] = -torch.inf
    rows[2, :SIZE][legal] = -torch.inf
    for row in rows:
        wanted = row.clone()[None]
        array, never, zero = as_array(wanted)
        cut_off = mask.apply(array[0], never, zero)
        given = row.clone()[None]
        found, too = mask.masked(given)
        assert torch.equal(found, wanted)
        assert given.view(torch.uint8).equal(row[None].view(torch.uint8))
        kept = legal & (row[:SIZE] > -torch.inf)
        assert found[0, :SIZE][kept].equal(row[:SIZE][kept])
        assert cut_off == too == (not kept.any() and not legal[[7, 8]].any())
        emptied = [7, 8] if not kept.any() else kept.nonzero().flatten().tolist()
        assert (found[0] > -torch.inf).nonzero().flatten().tolist() == emptied
