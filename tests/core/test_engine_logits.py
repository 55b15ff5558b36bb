"""An engine's logits through a processor: NaN counts as -inf, and no row is left without a token."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.batching import BatchedRequests, NewRequest
from logitkit.composition import EngineLogits
from logitkit.errors import ConfigurationError, ProcessorError
from logitkit.protocol.declared import is_foreign
from tests.registry import EOS, PAD, ROWS, Row, vocabulary

NEVER, NAN = float("-inf"), float("nan")
WIDTH = 72
every_row = pytest.mark.parametrize("row", ROWS, ids=str)
on_both_paths = pytest.mark.parametrize("by_tensors", [False, True], ids=["host", "tensors"])


def run(processor: Any, logits: Tensor, by_tensors: bool, *eos_ids: int) -> Tensor:
    context = lk.Context.of([[5, 6]] * len(logits), logits.shape[1])
    state = processor.init_state(context)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=by_tensors):
        return EngineLogits(processor)(state, logits.clone(), context, eos_ids)


@every_row
@on_both_paths
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_nan_counts_as_never(row: Row, by_tensors: bool, dtype: torch.dtype) -> None:
    rng = torch.Generator().manual_seed(3)
    logits = torch.randn(6, WIDTH, generator=rng).to(dtype)
    holes = torch.rand(6, WIDTH, generator=rng) < torch.tensor([0.0, 0.05, 0.5, 0.95, 1.0, 1.0])[:, None]
    holes[5, 40] = False
    found = run(row.processor, torch.where(holes, NAN, logits), by_tensors, EOS)
    wanted = run(row.processor, torch.where(holes, NEVER, logits), by_tensors, EOS)
    assert not found.isnan().any()
    rows = [0, 1, 2, 3, 5]
    assert torch.equal(found[rows], wanted[rows])
    if not by_tensors:
        # Nothing is left. On a device nobody looks, where a processor alone leaves something where there was something.
        left = (found[4] > NEVER).nonzero()[:, 0].tolist()
        assert left == _forced(row) or (EOS in left and found[4].amax() == 0)


def _forced(row: Row) -> list[int]:
    """Return what a processor forces, whatever the logits are."""
    processor = row.processor
    return list(processor.ids[:1]) if isinstance(processor, lk.ForcedTokens) else []  # type: ignore[arg-type]


@every_row
def test_by_itself_every_constraint_on_text_drops_nan(row: Row) -> None:
    if not row.masks or not row.sized or not hasattr(row.processor, "automaton"):
        return
    logits = torch.full((2, WIDTH), NAN)
    context = lk.Context.of([[5, 6]] * 2, WIDTH)
    for compiling in (False, True):
        with mock.patch.object(torch.compiler, "is_compiling", return_value=compiling):
            state = row.processor.init_state(context)
            found = row.processor.process_logits(state, logits.clone(), context)[1]
        assert (found > NEVER).nonzero().tolist() == [[0, EOS], [1, EOS]]
        assert not found.isnan().any()


@every_row
def test_what_requires_a_gradient_is_refused(row: Row) -> None:
    context = lk.Context.of([[5, 6]], WIDTH)
    state, logits = row.processor.init_state(context), torch.zeros(1, WIDTH, requires_grad=True)
    with pytest.raises(ConfigurationError, match="require a gradient, which it cannot compute; call it under"):
        EngineLogits(row.processor)(state, logits, context)
    if row.kind not in ("stateless", "empty"):
        with pytest.raises(ConfigurationError, match="require a gradient"):
            row.processor.process_logits(state, logits, context)


def nothing(logits: Tensor, context: lk.Context) -> Tensor:
    return torch.full_like(logits, NEVER)


@on_both_paths
def test_a_function_that_leaves_nothing(by_tensors: bool) -> None:
    logits = torch.zeros(2, 8)
    for processor in (lk.Stateless(nothing), lk.chain(lk.TopK(3), lk.Stateless(nothing), lk.Temperature(2.0))):
        assert (run(processor, logits, by_tensors, 3) > NEVER).nonzero().tolist() == [[0, 3], [1, 3]]
        with pytest.raises(ProcessorError, match="after Stateless row 0 has no token left"):
            run(processor, logits, by_tensors)
    known = lk.chain(lk.Stateless(nothing), lk.Temperature(2.0), eos_ids=[4, 5])
    assert (run(known, logits, by_tensors, 3) > NEVER).nonzero().tolist() == [[0, 4], [0, 5], [1, 4], [1, 5]]
    with pytest.raises(ConfigurationError, match="eos_ids contains 9, but the logits have 8 columns"):
        run(lk.Stateless(nothing), logits, by_tensors, 9)


@on_both_paths
def test_only_the_row_that_is_left_nothing_ends(by_tensors: bool) -> None:
    def second(logits: Tensor, context: lk.Context) -> Tensor:
        return torch.cat([logits[:1], torch.full_like(logits[1:2], NEVER), logits[2:]])

    found = run(lk.Stateless(second), torch.ones(3, 5), by_tensors, 2)
    assert found.tolist() == [[1.0] * 5, [NEVER, NEVER, 0.0, NEVER, NEVER], [1.0] * 5]
    with pytest.raises(ProcessorError, match="after Stateless row 1 has no token left"):
        run(lk.Stateless(second), torch.ones(3, 5), by_tensors)


class OwnRegex(lk.Regex):
    """Masks a token more than the language does."""

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        state, logits = super().process_logits(state, logits, context)
        logits[:, 3] = NEVER
        return state, logits


@on_both_paths
def test_a_class_of_the_users_that_derives_from_one_of_ours_may_leave_nothing(by_tensors: bool) -> None:
    own = OwnRegex("0", vocabulary())
    assert is_foreign(own)
    assert not is_foreign(lk.Regex("0", vocabulary()))
    for processor in (own, lk.chain(lk.Temperature(1.0), own), lk.chain(lk.BanTokens([PAD]), own, lk.TopP(0.5))):
        assert (run(processor, torch.zeros(1, WIDTH), by_tensors) > NEVER).nonzero().tolist() == [[0, EOS]]


def test_a_chain_looks_at_rows_only_where_one_may_be_left_nothing() -> None:
    function, regex = lk.Stateless(nothing), lk.Regex("[0-9]", vocabulary())
    assert lk.chain(function, regex).at_fault == ()
    assert lk.chain(regex, function).at_fault == ()
    assert lk.chain(function, lk.TopK(2)).at_fault == (function,)
    assert lk.chain(lk.RepetitionPenalty(2.0), regex, lk.TopK(2)).at_fault == ()
    assert lk.chain(regex, function).ending_ids == (EOS,)
    assert lk.chain(function, regex).ending_ids == ()


@pytest.mark.parametrize("compiling", [False, True])
def test_a_row_of_a_batch_of_requests_ends_too(compiling: bool) -> None:
    both = lk.chain(lk.AllowTokens([3, 4, EOS]), lk.MinNewTokens(2, [EOS]), lk.Temperature(2.0))
    batch = BatchedRequests("cpu")
    batch.arrange([NewRequest(both, prompt=[5]), None, NewRequest(lk.Regex("0", vocabulary()), prompt=[])])
    with mock.patch.object(torch.compiler, "is_compiling", return_value=compiling):
        found = batch.process_logits(torch.full((3, WIDTH), NAN))
    assert (found > NEVER).nonzero().tolist() == [[0, EOS], [2, EOS]]
    assert not found[[0, 2]].isnan().any()
    # A row that asks for nothing is left as it is.
    assert found[1].isnan().all()
