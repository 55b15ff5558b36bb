"""The samplers and penalties of mlx-lm, on the same logits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from tests.processors.both_paths import both_paths, ordinary
from tests.processors.four_logits import NEVER, on_either_path

mx: Any = pytest.importorskip("mlx.core", reason="needs mlx-lm: pip install 'logitkit[mlx]'")
mlx: Any = pytest.importorskip("mlx_lm.sample_utils", reason="needs mlx-lm: pip install 'logitkit[mlx]'")

seeds = st.integers(0, 2**32)
widths = st.sampled_from([5, 40, 1500])
tokens = st.lists(st.integers(0, 4), min_size=1, max_size=30)
LINE = [1.5, -2.0, 0.5, 4.0, -0.25]


def as_mlx(logits: Tensor) -> Any:
    return mx.array(logits.numpy())


def kept(processed: Any) -> Tensor:
    return torch.from_numpy(np.array(processed)) > NEVER


@given(seeds, widths, st.sampled_from([1, 3, 4]))
def test_top_k(seed: int, width: int, k: int) -> None:
    logits = ordinary(seed, width)
    assume(all(len(row.topk(k + 1).values.unique()) == k + 1 for row in logits))
    assert torch.equal(both_paths(lk.TopK(k), logits) > NEVER, kept(mlx.apply_top_k(as_mlx(logits), k)))


@given(seeds, widths, st.sampled_from([0.01, 0.1, 0.5]))
def test_min_p(seed: int, width: int, p: float) -> None:
    logits = ordinary(seed, width)
    assume(((logits - logits.amax(1, keepdim=True) - math.log(p)).abs() > 1e-4).all())
    assert torch.equal(both_paths(lk.MinP(p), logits) > NEVER, kept(mlx.apply_min_p(as_mlx(logits), p)))


@given(seeds, widths, st.sampled_from([0.1, 0.5, 0.9]))
def test_top_p(seed: int, width: int, p: float) -> None:
    chances = ordinary(seed, width).log_softmax(1)
    sums = chances.double().exp().sort(1, descending=True).values.cumsum(1)
    assume(((sums - p).abs() > 1e-4).all())
    ours, theirs = both_paths(lk.TopP(p), chances) > NEVER, kept(mlx.apply_top_p(as_mlx(chances), p))
    assert torch.equal(ours, theirs)


@given(seeds, widths, st.sampled_from([0.01, 0.1, 0.4]))
def test_xtc(seed: int, width: int, threshold: float) -> None:
    logits = ordinary(seed, width)
    assume(((logits.softmax(1) - threshold).abs() > 1e-5).all())
    theirs = mlx.apply_xtc(as_mlx(logits), 1.0, threshold, [])
    assert torch.equal(both_paths(lk.Xtc(1, threshold), logits) > NEVER, kept(theirs))


@pytest.mark.parametrize(
    ("ours", "theirs", "rounding"),
    [
        (lk.RepetitionPenalty(1.3, window=20), lambda: mlx.make_repetition_penalty(1.3, 20), 0.0),
        (lk.PresencePenalty(0.7, 20, True), lambda: mlx.make_presence_penalty(0.7, 20), 0.0),
        (lk.FrequencyPenalty(0.7, 20, True), lambda: mlx.make_frequency_penalty(0.7, 20), 1e-5),
    ],
    ids=["repetition", "presence", "frequency"],
)
@given(st.data())
def test_penalties(ours: Any, theirs: Any, rounding: float, data: st.DataObject) -> None:
    prompt, output = data.draw(tokens), data.draw(st.lists(st.integers(0, 4), max_size=9))
    wanted = np.array(theirs()(mx.array([*prompt, *output]), mx.array([LINE])))[0].tolist()
    assert on_either_path(ours, output, LINE, prompt) == pytest.approx(wanted, abs=rounding, rel=0)


def test_logit_bias() -> None:
    (theirs,) = mlx.make_logits_processors({0: 2.5, 3: -1.25})
    wanted = np.array(theirs(mx.array([0]), mx.array([LINE])))[0].tolist()
    assert on_either_path(lk.LogitBias({0: 2.5, 3: -1.25}), [], LINE) == wanted
