"""Processors that shape the distribution against those of transformers: the same bits."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
    TypicalLogitsWarper,
)

import logitkit as lk
from logitkit.runtime.host_logits import HostRow
from logitkit.sampling import top_p
from tests.batches import same_bits
from tests.examples import examples
from tests.processors.both_paths import both_paths, host, ordinary, tied
from tests.processors.four_logits import NEVER

IDS: Any = torch.zeros(3, 1, dtype=torch.int64)

dtypes = st.sampled_from([torch.float32, torch.float16, torch.bfloat16])
seeds = st.integers(0, 2**32)
columns = st.sampled_from([1, 2, 5, 40, 1500])
least = st.sampled_from([1, 2, 7])


def likely_alone(some: int = top_p.SOME) -> Any:
    """Let TopP sort likely tokens alone in short rows too, if there are many; `some` is at most the number of their columns."""
    return mock.patch.multiple(top_p, MANY_COLUMNS=0, SAMPLED=1, SOME=some, FEW_LIKELY=1)


@given(seeds, dtypes, columns, st.sampled_from([0.1, 0.3, 0.7, 1.0, 1.3, 2.5, 77.0]))
def test_temperature_is_that_of_transformers(seed: int, dtype: torch.dtype, width: int, t: float) -> None:
    logits = ordinary(seed, width).to(dtype)
    assert same_bits(both_paths(lk.Temperature(t), logits), TemperatureLogitsWarper(t)(IDS, logits.clone()))


@given(seeds, dtypes, columns, st.sampled_from([1, 2, 5, 50, 1000, 5000]), least)
def test_top_k_is_that_of_transformers(seed: int, dtype: torch.dtype, width: int, k: int, keep: int) -> None:
    warper = TopKLogitsWarper(k, min_tokens_to_keep=keep)
    for logits in (ordinary(seed, width).to(dtype), tied(seed, width).to(dtype)):
        assert same_bits(both_paths(lk.TopK(k, keep), logits), warper(IDS, logits.clone()))


@given(seeds, columns, st.sampled_from([0.0, 0.001, 0.1, 0.5, 0.9, 0.95, 0.9999]), least)
def test_top_p_is_that_of_transformers(seed: int, width: int, p: float, keep: int) -> None:
    warper = TopPLogitsWarper(p, min_tokens_to_keep=keep)
    for sorts in (nullcontext(), likely_alone(max(1, width // 4))):
        with sorts:
            logits = ordinary(seed, width)
            assert same_bits(both_paths(lk.TopP(p, keep), logits), warper(IDS, logits.clone()))
            # Which of equal ones stay is left to torch.sort; how many do is not.
            logits = tied(seed, width)
            ours, theirs = both_paths(lk.TopP(p, keep), logits), warper(IDS, logits.clone())
            assert same_bits(ours.sort(1).values, theirs.sort(1).values)


@given(seeds, st.sampled_from([1.0, 3.0, 5.0]), st.sampled_from([0.1, 0.5, 0.9, 0.99]), st.sampled_from([1, 4000]))
@settings(max_examples=examples(60))
def test_top_p_is_that_of_transformers_in_long_rows(seed: int, scale: float, p: float, keep: int) -> None:
    logits = torch.randn(2, 30_011, generator=torch.Generator().manual_seed(seed)) * scale
    logits[1] = logits[1].mul(8).round().div(8)
    ours, theirs = (
        both_paths(lk.TopP(p, keep), logits),
        TopPLogitsWarper(p, min_tokens_to_keep=keep)(IDS, logits.clone()),
    )
    assert same_bits(ours[:1], theirs[:1])
    assert same_bits(ours.sort(1).values, theirs.sort(1).values)


@given(
    seeds,
    st.sampled_from([1100, 4099, 20_000]),
    st.sampled_from([0.5, 2.0, 5.0, 9.0]),
    st.sampled_from([-200.0, 0.0, 200.0]),
    st.floats(0, 1),
    st.booleans(),
)
def test_top_p_is_that_of_transformers_at_the_edges_of_its_sums(
    seed: int, width: int, scale: float, middle: float, place: float, masked: bool
) -> None:
    """Where only the likely tokens are sorted, a cut must not move, although the sums of others round in another way."""
    logits = torch.randn(1, width, generator=torch.Generator().manual_seed(seed)) * scale + middle
    if masked:
        logits[:, : width // 3] = -torch.inf
    # With p at the very number of a sum, the last bit decides.
    sums = logits.sort(1).values.softmax(1).cumsum(1)[0]
    cut = float(sums[min(width - 1, int((sums < place).sum()))])
    with likely_alone():
        for p in (1 - cut, 1 - math.nextafter(cut, 1), 1 - cut * (1 - 1e-7), 1 - cut * (1 - 1e-4)):
            if 0 <= p < 1:
                assert same_bits(after_top_p(p, logits), TopPLogitsWarper(p)(IDS, logits.clone()))


@pytest.mark.parametrize("width", [33, 257, 1000])
def test_top_p_is_that_of_transformers_at_every_sum_of_a_small_row(width: int) -> None:
    for seed in range(5):
        logits = torch.randn(1, width, generator=torch.Generator().manual_seed(seed)) * 5
        for cut in logits.sort(1).values.softmax(1).cumsum(1)[0].tolist()[-100:]:
            for p in (1 - cut * (1 - 1e-5), 1 - cut * (1 + 1e-5)):
                if 0 <= p < 1:
                    with likely_alone(some=16):
                        found = after_top_p(p, logits)
                    assert same_bits(found, TopPLogitsWarper(p)(IDS, logits.clone()))


def test_top_p_sorts_only_likely_tokens_where_that_is_certain() -> None:
    logits = torch.randn(1, 30_011, generator=torch.Generator().manual_seed(0)) * 5
    flat, row = logits[0].numpy() / 10, HostRow(logits[0].numpy(), -np.inf, logits[0].numpy(), float(logits.max()))
    found = top_p.cut_of_likely(row, 0.1)
    assert found is not None
    likely, rising, gone = found
    assert (np.sort(row.scores[likely]) == rising).all()
    assert 0 < gone < len(rising) < 30_011 // top_p.FEW_LIKELY
    assert top_p.cut_of_likely(HostRow(flat, -np.inf, flat, float(flat.max())), 0.1) is None
    edge = float(logits[0].double().sort().values.softmax(0).cumsum(0)[-20])
    assert top_p.cut_of_likely(row, edge) is None
    assert top_p.cut_of_likely(row, edge * 0.999) is not None


def after_top_p(p: float, logits: torch.Tensor) -> torch.Tensor:
    context = lk.Context.of([[]] * len(logits), logits.shape[1])
    processor = lk.TopP(p)
    return processor.process_logits(processor.init_state(context), logits.clone(), context)[1]


@given(seeds, columns, st.sampled_from([1e-9, 0.001, 0.05, 0.3, 0.9, 1.0]), least)
def test_min_p_is_that_of_transformers(seed: int, width: int, p: float, keep: int) -> None:
    warper = MinPLogitsWarper(p, min_tokens_to_keep=keep)
    logits = ordinary(seed, width)
    assert same_bits(both_paths(lk.MinP(p, keep), logits), warper(IDS, logits.clone()))
    logits = tied(seed, width)
    ours, theirs = both_paths(lk.MinP(p, keep), logits), warper(IDS, logits.clone())
    assert same_bits(ours.sort(1).values, theirs.sort(1).values)
    assert keep > 1 or same_bits(ours, theirs)


def test_min_p_looks_closely_where_rounding_decides() -> None:
    """Logits on either side of the cut, a few bits apart: the probabilities decide, as in transformers."""
    warper, p = MinPLogitsWarper(0.1), 0.1
    cut = torch.tensor(5 + math.log(p))
    steps = torch.arange(-40, 41).float() * torch.finfo(torch.float32).eps * 4
    logits = torch.cat([torch.tensor([5.0]), cut + steps, torch.randn(200)])[None]
    ours = both_paths(lk.MinP(p), logits)
    assert same_bits(ours, warper(IDS, logits.clone()))
    assert 0 < int((ours[0, 1:82] > NEVER).sum()) < 81


@given(seeds, columns, st.sampled_from([0.001, 0.2, 0.5, 0.95, 0.999]), least)
def test_typical_p_is_that_of_transformers(seed: int, width: int, p: float, keep: int) -> None:
    warper = TypicalLogitsWarper(p, min_tokens_to_keep=keep)
    logits = ordinary(seed, width)
    assert same_bits(both_paths(lk.TypicalP(p, keep), logits), warper(IDS, logits.clone()))


def test_a_real_width_is_that_of_transformers() -> None:
    """131,072 columns, where partial sums are long and a softmax is summed by parts."""
    logits = torch.randn(2, 131_072, generator=torch.Generator().manual_seed(0)) * 3
    logits[1, ::3] = NEVER
    for processor, warper in (
        (lk.TopK(50), TopKLogitsWarper(50)),
        (lk.TopK(4000), TopKLogitsWarper(4000)),
        (lk.TopP(0.9), TopPLogitsWarper(0.9)),
        (lk.MinP(0.05), MinPLogitsWarper(0.05)),
        (lk.TypicalP(0.9), TypicalLogitsWarper(0.9)),
    ):
        assert same_bits(host(processor, logits), warper(IDS, logits.clone())), processor


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    ("processor", "warper"),
    [
        (lk.TopP(0.9), TopPLogitsWarper(0.9)),
        (lk.MinP(0.05), MinPLogitsWarper(0.05)),
        (lk.TypicalP(0.9), TypicalLogitsWarper(0.9)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sixteen_bits_are_calculated_with_in_32(processor: Any, warper: Any, dtype: torch.dtype) -> None:
    logits = ordinary(1, 3000).to(dtype)
    wide = warper(IDS, logits.float())
    ours = both_paths(processor, logits)
    assert same_bits(ours.float().sort(1).values, wide.sort(1).values)
