"""Rows of constraints that may nest do not share a batch with rows of others by mistake."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

import logitkit as lk
from logitkit.errors import BatchMismatch
from logitkit.languages import regex
from logitkit.runtime.constraint import Constraint
from tests.batches import tensor_path
from tests.pipeline.test_languages import LISTS, VOCABULARY

FLAT, NESTED, FINITE = (
    lk.Regex("0+", VOCABULARY),
    lk.JsonSchema(LISTS, VOCABULARY),
    lk.JsonSchema({"enum": [0]}, VOCABULARY),
)
START = lk.Context.of([[0]], VOCABULARY.size)


@pytest.mark.parametrize("nested", [NESTED, FINITE], ids=["recursive", "finite"])
def test_rows_with_and_without_stacks_are_not_concatenated(nested: lk.JsonSchema) -> None:
    """Even if a schema does not nest, so that no row has a stack."""
    states = [nested.init_state(START), FLAT.init_state(START)]
    with pytest.raises(BatchMismatch, match=r"concatenate got rows of constraints that may nest.*such as JsonSchema"):
        lk.concatenate(states)
    with pytest.raises(BatchMismatch, match="concatenate got rows"):
        lk.concatenate([(state,) for state in states])


@pytest.mark.parametrize("of", [NESTED, FINITE, FLAT], ids=["recursive", "finite", "flat"])
def test_rows_without_a_constraint_are_concatenated_with_any(of: Constraint) -> None:
    joined = lk.concatenate([of.init_state(START), Constraint.neutral_state(START)])
    out = of.process_logits(joined, torch.zeros(2, VOCABULARY.size), START)[1]
    assert out.isfinite().all(1).tolist() == [False, True]


def test_a_language_in_place_of_a_pattern_can_be_concatenated_with_a_schema() -> None:
    """As the error says."""
    same = regex("0+").constraint(VOCABULARY)
    joined = lk.concatenate([NESTED.init_state(START), same.init_state(START)])
    out = NESTED.process_logits(joined, torch.zeros(2, VOCABULARY.size), START)[1]
    alone = FLAT.process_logits(FLAT.init_state(START), torch.zeros(1, VOCABULARY.size), START)[1]
    assert torch.equal(out[1], alone[0])


@pytest.mark.parametrize("tensors", [False, True], ids=["rows", "tensors"])
def test_rows_with_and_without_stacks_are_not_mixed_by_mistake(tensors: bool) -> None:
    """Where a state has not come from `concatenate` on the host."""
    logits, token = torch.zeros(2, VOCABULARY.size), torch.tensor([0, 0])
    with tensor_path():
        both, of_states = (
            lk.concatenate([nested.init_state(START), FLAT.init_state(START)]) for nested in (NESTED, FINITE)
        )
    with tensor_path() if tensors else nullcontext():
        for call in (lambda: FLAT.process_logits(both, logits, START), lambda: FLAT.advance(both, token)):
            with pytest.raises(
                BatchMismatch, match="a Regex got a state with rows of a constraint that nests or counts"
            ):
                call()
        if not tensors:
            for state in (both, of_states):
                with pytest.raises(BatchMismatch, match="such as JsonSchema, next to rows of others, such as Regex"):
                    NESTED.process_logits(state, logits, START)
            return
        # On a device a row that is in no automaton of the registry is dead.
        assert NESTED.process_logits(both, logits, START)[1][1].isfinite().nonzero().tolist() == [[15]]
