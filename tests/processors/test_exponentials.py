"""Exponentials of scores and ids of likely tokens, which truncations and replay share, against numpy in 64 bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit.runtime.logit_arrays import HIGH, LOW, NEGLIGIBLE, exponentials, ids_from

seeds = st.integers(0, 2**32)


@given(
    seeds,
    st.sampled_from([1, 7, 4099]),
    st.sampled_from([torch.float32, torch.float64]),
    st.sampled_from([-1e30, -400.0, NEGLIGIBLE, LOW - 0.5, LOW + 0.5, 0.0, HIGH - 0.5, HIGH + 0.5, 1e4]),
    st.booleans(),
)
def test_they_are_a_multiple_of_the_softmax(seed: int, width: int, dtype: torch.dtype, top: float, roomy: bool) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = -torch.rand(width, generator=generator, dtype=dtype) * 30
    scores[torch.rand(width, generator=generator) < 0.2] = -torch.inf
    scores[int(torch.randint(width, (1,), generator=generator))] = 0
    scores += top
    before, best = scores.clone(), float(scores.max())
    room = torch.full_like(scores, torch.nan) if roomy else None
    found, greatest = exponentials(scores, best, room)
    assert torch.equal(scores, before)
    assert room is None or found.data_ptr() == room.data_ptr()
    wide = np.exp(scores.numpy().astype(np.float64) - best)
    np.testing.assert_allclose(found.numpy().astype(np.float64) / greatest, wide, rtol=3e-5, atol=1e-25)
    assert float(found.sum()) / greatest == pytest.approx(float(wide.sum()), rel=1e-6)


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_broken_scores_give_nan(broken: float) -> None:
    scores = torch.tensor([1.0, broken, -torch.inf])
    found, greatest = exponentials(scores, broken)
    assert math.isnan(float(found.sum()) / greatest)


@given(seeds, st.sampled_from([1, 7, 8, 9, 64, 4099]), st.floats(0, 1))
def test_ids_are_those_of_numpy(seed: int, width: int, least: float) -> None:
    scores = np.random.default_rng(seed).random(width, np.float32)
    for some in (scores, scores[::2]):
        ids = np.flatnonzero(some >= least)
        found = ids_from(some, least, len(ids))
        assert found is not None
        assert found.tolist() == ids.tolist()
        assert ids_from(some, least, len(ids) - 1) is None
