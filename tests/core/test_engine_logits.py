"""An engine's logits through a processor: broken ones are an error, and no row is left without a token."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit.batching import BatchedRequests, NewRequest
from logitkit.composition import EngineLogits
from logitkit.composition.conflicts import eos_ids_of
from logitkit.errors import BrokenLogits, ConfigurationError, ProcessorError
from logitkit.protocol.declared import is_foreign
from tests.batches import with_guidance
from tests.fake_cuda import fake_cuda
from tests.registry import EOS, PAD, ROWS, Row, vocabulary

NEVER, INF, NAN = float("-inf"), float("inf"), float("nan")
WIDTH = 72
every_row = pytest.mark.parametrize("row", ROWS, ids=str)
on_both_paths = pytest.mark.parametrize("by_tensors", [False, True], ids=["host", "tensors"])


def run(processor: Any, logits: Tensor, by_tensors: bool, *eos_ids: int) -> Tensor:
    context = lk.Context.of([[5, 6]] * len(logits), logits.shape[1])
    state = processor.init_state(context)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=by_tensors):
        context = with_guidance(processor, context, torch.ones_like(logits))
        return EngineLogits(processor, guided=True)(state, logits.clone(), context, eos_ids)


@every_row
@on_both_paths
def test_logits_that_may_not_be_overwritten_stay(row: Row, by_tensors: bool) -> None:
    """transformers returns them to the caller of `generate(output_logits=True)`."""
    logits = logits_of(torch.float32)
    context = with_guidance(row.processor, lk.Context.of([[5, 6]] * len(logits), WIDTH), logits)
    kept, process = logits.clone(), EngineLogits(row.processor, guided=True)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=by_tensors):
        state = row.processor.init_state(context)
        processed = process(state, logits, context, [EOS], overwrite=False)
    assert logits.equal(kept)
    assert processed is not logits


BREAKS: dict[str, tuple[Any, float]] = {
    "one NaN": (40, NAN),
    "a NaN in place of EOS": (EOS, NAN),
    "one +inf": (41, INF),
    "all NaN": (slice(None), NAN),
    "all +inf": (slice(None), INF),
    "all -inf": (slice(None), NEVER),
}


def logits_of(dtype: torch.dtype) -> Tensor:
    """Return six rows: the engine has banned some tokens of two of them, and all but one of another."""
    rng = torch.Generator().manual_seed(3)
    logits = torch.randn(6, WIDTH, generator=rng).to(dtype)
    banned = torch.rand(6, WIDTH, generator=rng) < torch.tensor([0.0, 0.5, 0.0, 0.0, 0.9, 1.0])[:, None]
    banned[5, 40] = False
    return torch.where(banned, NEVER, logits)


@every_row
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_broken_logits_are_an_error_that_names_row_and_step(row: Row, dtype: torch.dtype) -> None:
    for column, value in BREAKS.values():
        logits = logits_of(dtype)
        logits[3, column] = value
        with pytest.raises(
            BrokenLogits, match=r"broken logits for row 3 at step 0: (\d+ of 72 are|all 72 are)"
        ) as caught:
            run(row.processor, logits, False, EOS)
        assert (caught.value.row, caught.value.step) == (3, 0)
    assert not run(row.processor, logits_of(dtype), False, EOS).isnan().any()


@every_row
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_on_a_device_a_broken_row_has_only_eos_and_a_flag(row: Row, dtype: torch.dtype) -> None:
    context = with_guidance(row.processor, lk.Context.of([[5, 6]] * 6, WIDTH), torch.ones(6, WIDTH))
    state = row.processor.init_state(context)
    process = EngineLogits(row.processor, guided=True)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        wanted = process(state, logits_of(dtype), context, [EOS])
        assert process.broken is not None
        assert not process.broken.any()
        process.raise_broken()
        for column, value in BREAKS.values():
            logits = logits_of(dtype)
            logits[3, column] = value
            found = process(state, logits, context, [EOS])
            others = [0, 1, 2, 4, 5]
            assert torch.equal(found[others], wanted[others])
            ends = sorted(eos_ids_of(row.processor) or [EOS])
            assert (found[3] > NEVER).nonzero()[:, 0].tolist() == ends
            assert found[3, ends].tolist() == [0] * len(ends)
            assert process.broken is not None
            assert process.broken.tolist() == [False, False, False, True, False, False]
            with pytest.raises(BrokenLogits, match="broken logits for row 3 at step 0: a logit is NaN or"):
                process.raise_broken()
            process.raise_broken()


def test_on_a_device_without_eos_the_host_waits_for_the_flag() -> None:
    with pytest.raises(BrokenLogits, match="for row 1 at step 0"):
        run(lk.Temperature(2.0), torch.tensor([[1.0, 2.0], [1.0, NAN]]), True)
    assert run(lk.Temperature(2.0), torch.tensor([[1.0, 2.0], [1.0, NEVER]]), True).tolist() == [[0.5, 1], [0.5, NEVER]]


@on_both_paths
def test_after_its_end_the_logits_of_a_row_do_not_matter(by_tensors: bool) -> None:
    finished, dead = lk.Regex("0?", vocabulary()), lk.Regex("0", vocabulary())
    for processor in (finished, dead, lk.chain(lk.Temperature(2.0), finished), lk.chain(lk.Temperature(2.0), dead)):
        context = lk.Context.of([[5, 6]] * 2, WIDTH)
        state = processor.advance(processor.init_state(context), torch.tensor([[-1], [EOS]]))  # type: ignore[arg-type]
        logits = torch.stack([torch.zeros(WIDTH), torch.full((WIDTH,), NAN)])
        process = EngineLogits(processor)
        with mock.patch.object(torch.compiler, "is_compiling", return_value=by_tensors):
            found = process(state, logits, context)
        process.raise_broken()
        assert EOS in (found[1] > NEVER).nonzero()[:, 0].tolist()
        assert not found.isnan().any()


@on_both_paths
def test_a_function_that_returns_infinity(by_tensors: bool) -> None:
    def certain(logits: Tensor, context: lk.Context) -> Tensor:
        return torch.where(torch.arange(logits.shape[1]) == 4, INF, logits)

    own, regex = lk.Stateless(certain), lk.Regex("[0-9]", vocabulary())
    for processor in (own, lk.chain(own, lk.Temperature(2.0)), lk.chain(regex, own)):
        if by_tensors:
            assert (run(processor, torch.zeros(1, WIDTH), True, EOS) > NEVER).nonzero().tolist() == [[0, EOS]]
            continue
        with pytest.raises(ProcessorError, match=r"after Stateless the logit of token 4 in row 0 is \+inf; to force a"):
            run(processor, torch.zeros(1, WIDTH), False, EOS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("given", [0.0, NAN, NEVER], ids=str)
def test_infinity_is_found_beside_other_numbers(given: float, dtype: torch.dtype) -> None:
    def certain(logits: Tensor, context: lk.Context) -> Tensor:
        return logits.index_fill(0, torch.tensor([1]), given).index_put(
            (torch.tensor(1), torch.tensor(4)), torch.tensor(INF, dtype=dtype)
        )

    with pytest.raises(ProcessorError, match=r"the logit of token 4 in row 1 is \+inf; to force a"):
        run(lk.Stateless(certain), torch.zeros(2, WIDTH, dtype=dtype), False, EOS)


def test_an_eos_id_without_a_column_is_an_error_before_a_row_is_empty() -> None:
    with pytest.raises(ConfigurationError, match=f"eos_ids contains {WIDTH}, but the logits have {WIDTH} columns"):
        run(lk.Stateless(lambda logits, _: logits), torch.zeros(1, WIDTH), False, WIDTH)


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
        EngineLogits(row.processor, guided=True)(state, logits, context)
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
@pytest.mark.parametrize("break_", BREAKS)
def test_a_row_of_a_batch_of_requests_ends_too(compiling: bool, break_: str, caplog: pytest.LogCaptureFixture) -> None:
    both = lk.chain(lk.AllowTokens([3, 4, EOS]), lk.MinNewTokens(2, [EOS]), lk.Temperature(2.0))
    rows = [
        NewRequest(both, prompt=[5]),
        None,
        NewRequest(lk.Regex("0", vocabulary()), prompt=[]),
        NewRequest(both, [5]),
    ]
    batch = BatchedRequests("cpu", eos_ids=[EOS])
    batch.arrange(rows)
    logits = torch.zeros(4, WIDTH)
    column, value = BREAKS[break_]
    logits[:3, column] = value
    with mock.patch.object(torch.compiler, "is_compiling", return_value=compiling):
        found = batch.process_logits(logits.clone())
    assert (found[[0, 2]] > NEVER).nonzero().tolist() == [[0, EOS], [1, EOS]]
    assert (found[3] > NEVER).nonzero().tolist() == [[3], [4]]
    assert batch.broken is not None
    assert batch.broken.tolist() == [True, False, True, False]
    if not compiling:
        said = [record.getMessage() for record in caplog.records]
        assert ["broken logits for row 0: " in said[0], "broken logits for row 2: " in said[1]] == [True, True]
    # A row that asks for nothing is left as it is.
    assert torch.equal(found[1].nan_to_num(), logits[1].nan_to_num())
    assert torch.equal(found[1].isnan(), logits[1].isnan())
    unknown = BatchedRequests("cpu")
    unknown.arrange(rows)
    with pytest.raises(BrokenLogits, match="for row 0"):
        unknown.process_logits(logits)


def test_nothing_is_read_of_a_batch_on_a_device() -> None:
    with fake_cuda() as device:
        batch = BatchedRequests(device, eos_ids=[EOS])
        batch.arrange([NewRequest(lk.TopK(3), prompt=[5], max_length=8), None])
        found = batch.process_logits(torch.zeros(2, WIDTH, device=device))
        assert batch.broken is not None
        assert {found.device.type, batch.broken.device.type} == {"cuda"}
