"""Kept sets and their mass: packed as vLLM packs bitmasks, on both paths, against sums over tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ArgumentTypeError, BatchMismatch, ConfigurationError
from logitkit.runtime.token_bits import packed, unpacked, width
from logitkit.training.kept_sets import restrict
from tests.batches import tensor_path

sizes = given(st.integers(0, 3), st.integers(1, 100), st.integers(0, 2**32))


@settings(max_examples=60, deadline=None)
@sizes
def test_bits_are_those_of_a_loop(rows: int, columns: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    legal = torch.rand(rows, columns, generator=generator) < 0.5
    logits = torch.zeros(rows, columns).masked_fill(~legal, -torch.inf)
    expected = torch.zeros(rows, width(columns), dtype=torch.int64)
    for row in range(rows):
        for token in range(columns):
            expected[row, token // 32] |= int(legal[row, token]) << (token % 32)
    expected = torch.where(expected >= 2**31, expected - 2**32, expected).to(torch.int32)
    packed = lk.training.kept(torch.zeros_like(logits), logits)
    assert torch.equal(packed, expected)
    with tensor_path():
        assert torch.equal(lk.training.kept(logits, logits), expected)
        assert torch.equal(unpacked(packed, columns), legal)
    assert torch.equal(unpacked(packed, columns), legal)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 100), st.sampled_from([0.0, 0.02, 0.5, 1.0]), st.integers(0, 2**32))
def test_logits_are_restricted_to_sets_of_any_density(rows: int, columns: int, density: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    inside = torch.rand(rows, columns, generator=generator) < density
    masked = torch.rand(rows, columns, generator=generator) < 0.02
    logits = (torch.randn(rows, columns, generator=generator) * 9).masked_fill(masked, -torch.inf)
    expected = torch.stack([torch.where(left, line, -torch.inf) for left, line in zip(inside, logits, strict=True)])
    for dtype in (torch.float32, torch.float64):
        found, lacking = restrict(logits.to(dtype), packed(inside))
        assert torch.equal(found, expected.to(dtype))
        assert lacking.tolist() == [bool((a & b).any()) for a, b in zip(inside, masked, strict=True)]


@settings(max_examples=40, deadline=None)
@sizes
def test_the_mass_is_a_sum(rows: int, columns: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    before = torch.randn(rows, columns, generator=generator) * 10
    after = before.masked_fill(torch.rand(rows, columns, generator=generator) < 0.7, -torch.inf)
    found = lk.training.log_mass(before, after)
    chances = before.double().softmax(1)
    for row in range(rows):
        kept = [float(c) for c, left in zip(chances[row], after[row] > -torch.inf, strict=True) if left]
        assert found[row].exp().item() == pytest.approx(sum(kept), abs=1e-6)


def test_a_tiny_mass_keeps_its_digits() -> None:
    before = torch.tensor([[0.0, -200.0, -300.0]])
    after = torch.tensor([[-torch.inf, -200.0, -torch.inf]])
    assert lk.training.log_mass(before, after).tolist() == [-200.0]
    assert lk.training.log_mass(before, torch.full((1, 3), -torch.inf)).tolist() == [-torch.inf]
    assert lk.training.log_mass(before.half(), after.half()).dtype == torch.float32


def test_arguments() -> None:
    logits = torch.zeros(2, 3)
    with pytest.raises(ArgumentTypeError, match="after is of type list; give a torch tensor of logits"):
        lk.training.kept(logits, [1.0])  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"before has shape \[3\]"):
        lk.training.log_mass(logits[0], logits)
    with pytest.raises(BatchMismatch, match=r"before has shape \[2, 3\], but after has \[1, 3\]"):
        lk.training.kept(logits, logits[:1])
    with pytest.raises(ConfigurationError, match="before is on cpu, but after is on meta"):
        lk.training.kept(logits, logits.to("meta"))


def test_kept_sets_are_those_of_sampling_and_not_of_the_trainer() -> None:
    # The sampler keeps the two best of its logits; the trainer has others, and both of the sampler's tokens stay.
    sampler, trainer = torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([[[0.0, 1.0, 2.0, 3.0]]], requires_grad=True)
    chain = lk.chain(lk.Temperature(0.5), lk.TopK(2))
    context = lk.Context.of([[]], vocabulary_size=4)
    after = chain.process_logits(chain.init_state(context), sampler.clone(), context)[1]
    found = lk.training.replay(chain, [[]], [[0]], trainer, kept=[lk.training.kept(sampler, after)])
    expected = torch.tensor([0.0, 2.0]).log_softmax(0)
    torch.testing.assert_close(found.log_probs[0, 0], expected[0])
    found.log_probs.sum().backward()
    assert trainer.grad is not None
    share = float(expected[1].exp())
    torch.testing.assert_close(trainer.grad[0, 0], torch.tensor([2 * share, -2 * share, 0.0, 0.0]))


@pytest.mark.parametrize("tokens", [[9], range(0, 40, 3), range(40)], ids=["one", "some", "all"])
def test_bits_after_the_last_token_do_not_count(tokens: Sequence[int]) -> None:
    """The bitmasks of kernels have ones there."""
    chain, generator = lk.chain(lk.Temperature(0.7), lk.TopP(0.9)), torch.Generator().manual_seed(0)
    given, legal = torch.randn(1, 1, 40, generator=generator), torch.zeros(1, 40, dtype=torch.bool)
    legal[0, list(tokens)] = True
    results = []
    for after in (0, -(2**8)):
        sets, logits = packed(legal)[None], given.clone().requires_grad_()
        sets[..., -1] |= after
        found = lk.training.replay(chain, [[]], [[9]], logits, kept=sets)
        found.log_probs.sum().backward()
        results.append((found.log_probs.detach(), logits.grad))
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)


def test_a_token_that_only_a_function_masks_now_keeps_the_logit_before_it() -> None:
    mask_low = lk.Stateless(lambda logits, context: (logits * 2).masked_fill(logits < 1, -torch.inf))
    logits = torch.tensor([[[0.5, 2.0, 0.0]]], requires_grad=True)
    sets = torch.tensor([[[0b011]]], dtype=torch.int32)
    found = lk.training.replay(lk.chain(mask_low, lk.Temperature(0.5)), [[]], [[0]], logits, kept=sets)
    expected = torch.tensor([1.0, 8.0]).log_softmax(0)
    torch.testing.assert_close(found.log_probs[0, 0], expected[0])
    found.log_probs.sum().backward()
    assert logits.grad is not None
    share = float(expected[1].exp())
    torch.testing.assert_close(logits.grad[0, 0], torch.tensor([2 * share, -4 * share, 0.0]))
