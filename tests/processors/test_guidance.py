"""Classifier-free guidance: by hand, against transformers' own processor, and where there is no second pass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from transformers import ClassifierFreeGuidanceLogitsProcessor, UnbatchedClassifierFreeGuidanceLogitsProcessor
from transformers.modeling_outputs import CausalLMOutput

import logitkit as lk
from logitkit.composition import EngineLogits
from logitkit.errors import BatchMismatch, BrokenLogits, ConfigurationError
from logitkit.protocol.context import concatenate_context, context_to
from logitkit.protocol.guidance import readers_of_guidance
from tests.processors.both_paths import ordinary

NEVER, INF, NAN = -math.inf, math.inf, math.nan
seeds = st.integers(0, 2**32)


def guided(scale: float, logits: Tensor, second: Tensor) -> Tensor:
    """Return the guided logits, having seen that tensors alone give the same."""
    processor = lk.Guidance(scale)
    context = replace(lk.Context.of([[]] * len(logits), logits.shape[1]), guidance_logits=second)
    given_, state = second.clone(), processor.init_state(context)
    found = processor.process_logits(state, logits.clone(), context)[1]
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        assert torch.equal(processor.process_logits(state, logits.clone(), context)[1], found)
    assert torch.equal(second.nan_to_num(5.5), given_.nan_to_num(5.5))
    return found


def by_chance(scale: float, first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return the exponentials of guided logarithms."""
    found = guided(scale, torch.tensor([first]).log(), torch.tensor([second]).log()).exp()
    values: list[float] = found[0].tolist()
    return values


def test_by_hand() -> None:
    # c**2 / u: 1/4 / 1/2 and 9/16 / 1/2 of the probabilities 1/4 and 3/4.
    assert by_chance(2, [0.25, 0.75], [0.5, 0.5]) == pytest.approx([0.125, 1.125])
    # Both passes are normalized first.
    assert by_chance(2, [1, 3], [8, 8]) == pytest.approx([0.125, 1.125])
    # With 0, the second pass alone; with -1, u**2 / c.
    assert by_chance(0, [0.25, 0.75], [0.9, 0.1]) == pytest.approx([0.9, 0.1])
    assert by_chance(-1, [0.25, 0.75], [0.5, 0.5]) == pytest.approx([1, 1 / 3])
    # Half way between the two: the root of their product.
    assert by_chance(0.5, [0.25, 0.75], [0.5, 0.5]) == pytest.approx([math.sqrt(1 / 8), math.sqrt(3 / 8)])


def test_a_token_that_one_pass_bans() -> None:
    # One that the first pass bans stays banned, whatever the scale; the others are normalized among each other.
    for scale in (3.0, 0.5, 0.0, -2.0):
        assert by_chance(scale, [0.0, 0.5, 0.5], [0.5, 0.25, 0.25])[0] == 0
    assert by_chance(2, [0.0, 0.5, 0.5], [0.5, 0.25, 0.25]) == pytest.approx([0, 1, 1])
    # One that only the second pass bans keeps its probability.
    for scale in (3.0, 0.5, 0.0, -2.0):
        assert by_chance(scale, [0.25, 0.5, 0.25], [0.0, 0.5, 0.5])[0] == pytest.approx(0.25)
    # A second pass without any token says nothing.
    assert by_chance(3, [1, 3], [0, 0]) == pytest.approx([0.25, 0.75])
    assert guided(2, torch.full((1, 3), NEVER), torch.zeros(1, 3)).tolist() == [[NEVER] * 3]


def test_what_is_not_a_number_counts_as_a_ban() -> None:
    assert guided(2, torch.tensor([[NAN, 0.0]]), torch.zeros(1, 2))[0].tolist() == [NEVER, pytest.approx(math.log(2))]
    found = guided(2, torch.zeros(1, 2), torch.tensor([[NAN, 0.0]]))
    assert found.tolist() == [[pytest.approx(-math.log(2)), pytest.approx(-2 * math.log(2))]]
    assert guided(2, torch.tensor([[INF, 0.0]]), torch.tensor([[0.0, INF]])).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_scale_of_1_changes_no_bit(dtype: torch.dtype) -> None:
    logits = torch.tensor([[0.1, NEVER, NAN, INF, -0.0, torch.finfo(dtype).max]], dtype=dtype)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    context = replace(lk.Context.of([[]], 6), guidance_logits=torch.randn(1, 6))
    neutral = lk.Guidance(1)
    found = neutral.process_logits(neutral.init_state(context), logits.clone(), context)[1]
    assert found.view(bits).equal(logits.view(bits))


@given(seeds, st.sampled_from([-1e4, -3.0, 1.5, 1e4]), st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
def test_finite_logits_stay_finite(seed: int, scale: float, dtype: torch.dtype) -> None:
    most = torch.finfo(dtype).max
    rng = torch.Generator().manual_seed(seed)
    first, second = torch.tensor([most, -most, 0.0, 1.0])[torch.randint(0, 4, (2, 3, 5), generator=rng)].to(dtype)
    found = guided(scale, first, second)
    assert found.dtype == dtype
    assert found.isfinite().all()


def transformers_guided(scale: float, logits: Tensor, second: Tensor) -> Tensor:
    theirs = UnbatchedClassifierFreeGuidanceLogitsProcessor(
        scale,
        mock.Mock(return_value=CausalLMOutput(logits=second[:, None])),
        use_cache=False,
    )
    found: Tensor = theirs(torch.zeros(len(logits), 1, dtype=torch.int64), logits.clone())
    return found


@given(seeds, st.sampled_from([1, 2, 40, 1500]), st.floats(0.01, 30))
def test_the_result_is_that_of_transformers(seed: int, width: int, scale: float) -> None:
    """Bans of the first pass stay. Those of the second would be NaN or +inf in transformers."""
    first, second = ordinary(seed, width), ordinary(seed + 1, width).clamp(min=-30)
    theirs = torch.where(first > NEVER, transformers_guided(scale, first, second), NEVER)
    ours = guided(scale, first, second)
    # With a scale of 1, transformers returns the log-probabilities, and this the logits as they are.
    torch.testing.assert_close(ours.log_softmax(1) if scale == 1 else ours, theirs, rtol=1e-5, atol=1e-4)


@given(seeds, st.floats(-30, 0))
def test_scales_below_0_are_those_of_transformers(seed: int, scale: float) -> None:
    first, second = ordinary(seed, 40).clamp(min=-30), ordinary(seed + 1, 40).clamp(min=-30)
    theirs = transformers_guided(scale, first, second)
    torch.testing.assert_close(guided(scale, first, second), theirs, rtol=1e-5, atol=1e-4)


@given(seeds, st.floats(1.01, 30))
def test_the_probabilities_are_those_of_a_batch_with_both_passes(seed: int, scale: float) -> None:
    first, second = ordinary(seed, 40), ordinary(seed + 1, 40).clamp(min=-30)
    theirs = ClassifierFreeGuidanceLogitsProcessor(scale)(torch.zeros(3, 1).long(), torch.cat([first, second]))
    torch.testing.assert_close(guided(scale, first, second).softmax(1), theirs.softmax(1), rtol=1e-4, atol=1e-6)


def test_a_chain_has_it_first() -> None:
    for earlier in (lk.TopK(3), lk.LogitBias({1: 2.0}), lk.Guidance(2)):
        with pytest.raises(ConfigurationError, match=f"has Guidance after {type(earlier).__name__}, which .*first"):
            lk.chain(earlier, lk.Guidance(1.5))
    config = {"temperature": 0.5, "logit_bias": {"0": 1}, "guidance": {"scale": 1.5}, "repetition_penalty": 1.1}
    vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
    chain = lk.from_config(config, vocabulary)
    assert isinstance(chain, lk.Chain)
    assert chain.processors[0] == lk.Guidance(1.5)
    assert lk.to_config(chain)["guidance"] == 1.5


def test_chains_and_rows_say_that_they_read_a_second_pass() -> None:
    guidance = lk.Guidance(1.5)
    inside = lk.Chain((lk.Chain((guidance,)), lk.TopK(3)))
    assert [*readers_of_guidance(inside)] == [guidance]
    assert inside.reads_guidance
    assert not lk.chain(lk.TopK(3)).reads_guidance
    assert [*readers_of_guidance(lk.TopK(3))] == [*readers_of_guidance(None)] == []


class Contrast:
    """A processor of a user that reads the second pass too."""

    may_empty_rows = False
    reads_guidance = True

    def init_state(self, context: lk.Context) -> tuple[()]:
        return ()

    def advance(self, state: tuple[()], tokens: Tensor) -> tuple[()]:
        return state

    def process_logits(self, state: tuple[()], logits: Tensor, context: lk.Context) -> tuple[tuple[()], Tensor]:
        assert context.guidance_logits is not None
        return state, torch.where(context.guidance_logits > logits, logits / 2, logits)


def test_a_class_of_a_user_may_read_a_second_pass() -> None:
    own = Contrast()
    context = replace(lk.Context.of([[]], 2), guidance_logits=torch.tensor([[1.0, 8.0]]))
    chain = lk.chain(own, lk.Temperature(2))
    found = EngineLogits(chain, guided=True)(chain.init_state(context), torch.tensor([[4.0, 4.0]]), context)
    assert found.tolist() == [[2, 1]]
    lk.check_processor(own, lk.Vocabulary([b"a", b"b", None], eos_ids=[2]))
    with pytest.raises(ConfigurationError, match=r"^Contrast reads the logits of a second pass, which this engine"):
        EngineLogits(chain)


@pytest.mark.parametrize(
    ("second", "error", "problem"),
    [
        (
            None,
            ConfigurationError,
            r"^Guidance reads .* and the context has none\. It works in `generate`",
        ),
        (torch.zeros(2, 3), BatchMismatch, r"have the shape \[2, 3\], and those of the first \[1, 3\]"),
        (torch.zeros(1, 4), BatchMismatch, r"have the shape \[1, 4\]"),
        (
            torch.zeros(1, 3, dtype=torch.int64),
            ConfigurationError,
            r"are torch.int64 on cpu; give floating point on cpu",
        ),
        (torch.zeros(1, 3, device="meta"), ConfigurationError, r"are torch.float32 on meta"),
    ],
)
def test_a_context_without_the_second_pass_is_refused(second: Any, error: type[Exception], problem: str) -> None:
    guidance = lk.Guidance(2)
    context = replace(lk.Context.of([[]], 3), guidance_logits=second)
    calls: tuple[Callable[..., Any], ...] = (guidance.process_logits, EngineLogits(guidance, guided=True))
    for call in calls:
        with pytest.raises(error, match=problem):
            call(guidance.init_state(context), torch.zeros(1, 3), context)


@pytest.mark.parametrize("scale", [-1e5, 1e5, NAN, INF, "2", None, True])
def test_a_scale_out_of_range_is_refused(scale: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^scale is .*; allowed are numbers from -10000 to 10000"):
        lk.Guidance(scale)


def test_a_broken_second_pass_is_named() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
    chain = lk.chain(lk.Guidance(2), lk.Regex("a?", vocabulary))
    process = EngineLogits(chain, guided=True)
    for value, problem in ((NAN, "1 of 3 are NaN"), (INF, r"1 of 3 are \+inf")):
        second = torch.zeros(2, 3)
        second[1, 0] = value
        context = replace(lk.Context.of([[0], [0]], 3), guidance_logits=second)
        state = chain.init_state(context)
        with pytest.raises(BrokenLogits, match=f"for row 1 at step 0: in the second pass, {problem}") as caught:
            process(state, torch.zeros(2, 3), context)
        assert caught.value.row == 1
        # On an accelerator, only EOS is left in the row, and the error comes later.
        with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
            found = process(state, torch.zeros(2, 3), context)
            assert found[1].tolist() == [NEVER, NEVER, 0]
            with pytest.raises(BrokenLogits, match="for row 1 at step 0"):
                process.raise_broken()
        # After its end, the logits of a row do not matter.
        ended = chain.advance(state, torch.tensor([0, 2]))
        assert (process(ended, torch.zeros(2, 3), context)[1] > NEVER).tolist() == [False, False, True]


@pytest.mark.parametrize("by_tensors", [False, True])
def test_a_second_pass_with_a_gradient_gives_none(by_tensors: bool) -> None:
    guidance = lk.Guidance(2)
    context = replace(lk.Context.of([[]], 3), guidance_logits=torch.zeros(1, 3, requires_grad=True))
    with mock.patch.object(torch.compiler, "is_compiling", return_value=by_tensors):
        found = guidance.process_logits(guidance.init_state(context), torch.zeros(1, 3), context)[1]
    assert not found.requires_grad


def test_contexts_keep_the_second_pass_of_their_step() -> None:
    logits = torch.arange(6.0).reshape(2, 3)
    context = replace(lk.Context.of([[0], [1]], 3), guidance_logits=logits)
    picked = lk.select_context(context, torch.tensor([1, 0, 1])).guidance_logits
    assert picked is not None
    assert picked.tolist() == logits[[1, 0, 1]].tolist()
    both = concatenate_context([context, context]).guidance_logits
    assert both is not None
    assert both.tolist() == [*logits.tolist(), *logits.tolist()]
    moved = context_to(context, torch.device("meta")).guidance_logits
    assert moved is not None
    assert moved.device.type == "meta"
    # The logits are those of one step, and every row needs them.
    assert context.at(torch.tensor([2, 2])).guidance_logits is None
    assert concatenate_context([context, lk.Context.of([[0]], 3)]).guidance_logits is None


def test_forced_tokens_need_no_second_pass() -> None:
    vocabulary = lk.Vocabulary([b"a", b"b", None], eos_ids=[2])
    chain = lk.chain(lk.Guidance(2), lk.Regex("a[ab]", vocabulary), lk.BanTokens([1]))
    context = lk.Context.of([[]], 3)
    assert lk.forced_run(chain, chain.init_state(context)) == [0, 0, 2]
    explanation = lk.explain(chain, vocabulary, [], "ab")
    assert explanation.refusal is not None
    assert "Guidance" not in str(explanation)
