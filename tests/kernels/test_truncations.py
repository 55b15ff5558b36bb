"""Truncations and temperatures by kernels keep what tensor operations keep.

`TopK`, `MinP`, `TopA` and `Temperature` give the same bits. `TopP` and `TypicalP` add up probabilities in another order, so they
may cut a row where tensor operations would for a probability that differs by rounding.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from tests.batches import tensor_path
from tests.kernels.interpreter import kernels
from tests.kernels.walks import given_logits, in_memory, same

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
# The rounding of a sum in 32 bits.
ROUNDING = 4e-6


def alike(a: Tensor, b: Tensor) -> bool:
    """Whether tensors agree bit by bit, but for the bits of NaN."""
    return same(torch.where(a.isnan(), 0, a), torch.where(b.isnan(), 0, b)) and a.isnan().equal(b.isnan())


def drawn(chance: random.Random, shape: tuple[int, int], dtype: torch.dtype) -> Tensor:
    """Return logits of one of four sorts: odd ones, ordinary ones, many that tie, and few that are left."""
    generator = torch.Generator().manual_seed(chance.getrandbits(32))
    sort = chance.randrange(4)
    if sort == 0:
        return given_logits(chance, shape, dtype, torch.device("cpu"))
    if sort == 1:
        return (torch.randn(shape, generator=generator) * chance.choice((0.1, 1, 5))).to(dtype)
    logits = torch.randint(-3, 4, shape, generator=generator).to(dtype)
    if sort == 3:
        logits[torch.rand(shape, generator=generator) < chance.choice((0.2, 0.9, 1))] = -torch.inf
    return logits


def by_both(processor: Any, logits: Tensor, chance: random.Random) -> tuple[Tensor, Tensor]:
    """Return the logits as tensor operations and as kernels process them."""
    context = lk.Context.of([[]] * len(logits), logits.shape[1])
    state = processor.init_state(context)
    with tensor_path():
        wanted = processor.process_logits(state, logits.clone(), context)[1]
    with kernels(strip=16, strips=chance.choice((1, 2)), programs=chance.choice((1, 6, 24))) as started:
        found = processor.process_logits(state, in_memory(logits, chance.randrange(3)), context)[1]
    assert started
    return wanted, found


SIZES = st.tuples(st.sampled_from((1, 2, 5)), st.sampled_from((1, 2, 31, 64, 150)))
LEAST = st.sampled_from((1, 1, 3, 50))
EXACT = st.one_of(
    st.builds(lk.TopK, st.sampled_from((1, 2, 5, 40, 400)), LEAST),
    st.builds(lk.MinP, st.sampled_from((0.0, 1e-60, 0.01, 0.3, 1.0))),
    st.builds(lk.TopA, st.sampled_from((0.0, 0.01, 0.3, 1.0))),
    st.builds(lk.Temperature, st.sampled_from((0, 1, 1e-4, 0.3, 2, 1e4))),
)


@given(EXACT, SIZES, st.sampled_from(DTYPES), st.randoms(use_true_random=False))
def test_the_same_bits(processor: Any, shape: tuple[int, int], dtype: torch.dtype, chance: random.Random) -> None:
    logits = drawn(chance, shape, dtype)
    wanted, found = by_both(processor, logits, chance)
    assert alike(wanted, found), (logits, wanted, found)


@given(
    st.sampled_from((0.0, 0.1, 0.5, 0.9, 0.999, 1.0)),
    LEAST,
    SIZES,
    st.sampled_from(DTYPES),
    st.randoms(use_true_random=False),
)
def test_top_p(p: float, least: int, shape: tuple[int, int], dtype: torch.dtype, chance: random.Random) -> None:
    """The least likely tokens are removed, of equal ones those with the lowest ids: no more and no fewer than may go."""
    logits = drawn(chance, shape, dtype)
    _, found = by_both(lk.TopP(p, least), logits, chance)
    for row, kept in zip(logits, found, strict=True):
        scores = torch.where(row.isnan(), -torch.inf, row.double())
        if scores.max() == torch.inf:
            scores = torch.where(scores == torch.inf, 0.0, -torch.inf)
        if p == 1 or scores.max() == -torch.inf:
            assert alike(kept, row if p == 1 else torch.where(row.isnan(), -torch.inf, row))
            continue
        order = scores.sort(stable=True).indices
        some = scores.isfinite()[order]
        gone = kept.isneginf()[order] & some
        count = int(gone.sum())
        # Those that are gone come first among the tokens that may be sampled.
        assert gone[some][:count].all()
        sums = scores.softmax(0)[order][some].cumsum(0)
        removed = float(sums[count - 1]) if count else 0.0
        assert removed <= 1 - p + ROUNDING
        left = int(some.sum()) - count
        assert left <= least or float(sums[count]) > 1 - p - ROUNDING
        assert left >= min(least, int(some.sum()))


@given(
    st.sampled_from((1e-6, 0.1, 0.5, 0.9, 0.999, 1.0)),
    LEAST,
    SIZES,
    st.sampled_from(DTYPES),
    st.randoms(use_true_random=False),
)
def test_typical_p(p: float, least: int, shape: tuple[int, int], dtype: torch.dtype, chance: random.Random) -> None:
    """The tokens that stay are between those for a probability slightly less and those for one slightly greater."""
    logits = drawn(chance, shape, dtype)
    wanted, found = by_both(lk.TypicalP(p, least), logits, chance)
    if p == 1:
        assert alike(wanted, found)
        return
    fewer, more = (
        by_both(lk.TypicalP(min(max(near, 1e-6), 1 - 1e-9), least), logits, chance)[0]
        for near in (p * (1 - ROUNDING), p + ROUNDING)
    )
    kept = found > -torch.inf
    assert (kept >= (fewer > -torch.inf)).all()
    assert (kept <= (more > -torch.inf)).all()
    assert alike(found, torch.where(kept | found.isnan(), logits, -torch.inf))


@pytest.mark.parametrize("processor", [lk.TopK(1, 3), lk.TopP(0.5, 3), lk.TypicalP(0.5, 3)], ids=str)
@pytest.mark.parametrize("odd", [torch.inf, -torch.inf, torch.nan])
def test_tokens_that_have_to_stay_are_taken_from_those_without_a_probability(processor: Any, odd: float) -> None:
    """Next to +inf, all others have the score -inf, but their logits are finite."""
    logits = torch.tensor([[5.0, odd, 1.0, 0.0, 2.0, odd], [-torch.inf, 1.0, odd, -torch.inf, -torch.inf, 0.5]])
    wanted, found = by_both(processor, logits, random.Random(0))
    assert alike(wanted, found)


def test_a_sum_does_not_depend_on_the_number_of_programs() -> None:
    logits = torch.randn(3, 300, generator=torch.Generator().manual_seed(0)) * 3
    processors: tuple[Any, ...] = (lk.TopP(0.9), lk.TypicalP(0.9), lk.MinP(0.01))
    for processor in processors:
        context = lk.Context.of([[]] * 3, 300)
        state, found = processor.init_state(context), []
        for programs in (1, 9, 60):
            with kernels(strip=16, strips=1, programs=programs):
                found.append(processor.process_logits(state, logits.clone(), context)[1])
        assert all(alike(found[0], other) for other in found)


def test_logits_in_64_bits_are_left_to_tensor_operations() -> None:
    context = lk.Context.of([[]], 9)
    processors: tuple[Any, ...] = (lk.TopK(2), lk.TopP(0.5), lk.TypicalP(0.5), lk.MinP(0.5), lk.Temperature(0.5))
    for processor in processors:
        logits = torch.randn(1, 9, dtype=torch.float64)
        state = processor.init_state(context)
        with tensor_path():
            wanted = processor.process_logits(state, logits.clone(), context)[1]
        with kernels() as started:
            assert alike(processor.process_logits(state, logits.clone(), context)[1], wanted)
        assert not started


@pytest.mark.parametrize("processor", [lk.MinP(0.5, min_tokens_to_keep=3), lk.TopA(0.5, min_tokens_to_keep=3)], ids=str)
def test_shares_that_keep_several_tokens_are_left_to_tensor_operations(processor: Any) -> None:
    logits, context = torch.tensor([[5.0, 1.0, 0.0, -1.0]]), lk.Context.of([[]], 4)
    with kernels() as started:
        found = processor.process_logits(processor.init_state(context), logits, context)[1]
    assert not started
    assert (found > -torch.inf).sum() == 3


def test_the_example_of_the_module() -> None:
    """With one launch for each digit."""
    logits = torch.tensor([[12.0, 45.0, 47.0, 81.0]])
    context = lk.Context.of([[]], 4)
    best = lk.TopK(2)
    with kernels() as started:
        found = best.process_logits(best.init_state(context), logits, context)[1]
    assert found.tolist() == [[-torch.inf, -torch.inf, 47.0, 81.0]]
    assert started == {"best_kernel": 1, "digit_kernel": 3, "cut_kernel": 1}
