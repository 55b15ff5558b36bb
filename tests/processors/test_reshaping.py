"""Dynamic temperature against llama.cpp's sampler, and quadratic smoothing against its formula."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from tests.processors.both_paths import both_paths, ordinary, tied
from tests.processors.four_logits import NEVER, on_either_path

seeds = st.integers(0, 2**32)
columns = st.sampled_from([1, 2, 5, 40, 1500])


def test_a_dynamic_temperature_by_hand() -> None:
    # Two tokens that are equally likely have the greatest entropy, whatever is masked.
    assert on_either_path(lk.DynamicTemperature(0.5, 2), [], [1.0, NEVER, 1.0, NEVER]) == [0.5, NEVER, 0.5, NEVER]
    # A certain token has none.
    assert on_either_path(lk.DynamicTemperature(0.5, 2), [], [300.0, 0.0, 0.0, 3.0]) == [600.0, 0.0, 0.0, 6.0]
    # The entropy of 1/4 and 3/4 is 0.5623, or 0.8113 of log 2; its square is 0.6582, so the temperature is 1.5 + 0.6582.
    out = on_either_path(lk.DynamicTemperature(1.5, 2.5, 2), [], [0.0, math.log(3), NEVER, NEVER])
    assert out == [0.0, pytest.approx(math.log(3) / 2.1582, rel=1e-4), NEVER, NEVER]
    # A single token does not change.
    assert on_either_path(lk.DynamicTemperature(2, 3), [], [NEVER, 7.0, NEVER, NEVER]) == [NEVER, 7.0, NEVER, NEVER]


@given(seeds, columns, st.sampled_from([(1.0, 0.5), (0.7, 0.6), (2.0, 1.5)]), st.sampled_from([0.5, 1.0, 2.0]))
def test_a_dynamic_temperature_is_that_of_llama_cpp(
    seed: int, width: int, center: tuple[float, float], exponent: float
) -> None:
    llama = pytest.importorskip("tests.llama_cpp_samplers")
    temperature, spread = center
    dynamic = lk.DynamicTemperature(temperature - spread, temperature + spread, exponent)
    for logits in (ordinary(seed, width), tied(seed, width)):
        for before, after in zip(logits, both_paths(dynamic, logits), strict=True):
            # llama.cpp counts the candidates that it is given, so it is given those that are left.
            left = before > NEVER
            found = llama.candidates(before[left])
            sampler = llama.llama.llama_sampler_init_temp_ext(temperature, spread, exponent)
            llama.apply(sampler, found)
            llama.llama.llama_sampler_free(sampler)
            theirs = torch.full((int(left.sum()),), NEVER)
            for i in range(found.size):
                theirs[found.data[i].id] = found.data[i].logit
            torch.testing.assert_close(after[left], theirs, rtol=1e-4, atol=1e-5)
            assert after[~left].isneginf().all()


def test_quadratic_smoothing_by_hand() -> None:
    # Distances of 0, 1, 2 and none: 0.5 times their squares.
    assert on_either_path(lk.QuadraticSmoothing(0.5), [], [3.0, 2.0, 1.0, NEVER]) == [3.0, 2.5, 1.0, NEVER]
    # A curve of 3 leaves only the cubes, and one of 2 takes half of each.
    assert on_either_path(lk.QuadraticSmoothing(0.5, 3), [], [3.0, 2.0, 1.0, NEVER]) == [3.0, 2.5, -1.0, NEVER]
    assert on_either_path(lk.QuadraticSmoothing(0.5, 2), [], [3.0, 2.0, 1.0, NEVER]) == [3.0, 2.5, 0.0, NEVER]
    # Distances whose squares are too great for the dtype.
    assert (
        on_either_path(lk.QuadraticSmoothing(1), [], [1e30, -1e30, NEVER, 1e30])[1] == -torch.finfo(torch.float32).max
    )


@given(seeds, columns, st.sampled_from([0.01, 0.23, 4.0]), st.floats(1, 3))
def test_quadratic_smoothing_is_its_formula(seed: int, width: int, factor: float, curve: float) -> None:
    k, s = (3 - curve) / 2, (curve - 1) / 2
    for logits in (ordinary(seed, width), tied(seed, width)):
        wide = logits.double()
        best = wide.amax(1, keepdim=True)
        below = wide - best
        wanted = torch.where(logits > NEVER, -(k * factor * below**2) + s * factor * below**3 + best, NEVER)
        ours = both_paths(lk.QuadraticSmoothing(factor, curve), logits)
        torch.testing.assert_close(ours.double(), wanted, rtol=1e-5, atol=1e-4)
        # The order of tokens stays.
        assert (ours.gather(1, logits.argsort(1)).nan_to_num().diff(dim=1) >= 0).all()


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: lk.DynamicTemperature(-1, 1), "low is -1; allowed are numbers from 0.0001 to 10000"),
        (lambda: lk.DynamicTemperature(1, math.inf), "high is inf"),
        (lambda: lk.DynamicTemperature(1, 2, -1), "exponent is -1"),
        (lambda: lk.QuadraticSmoothing(-1), r"factor is -1; allowed are numbers from 0 to 10000 \(0 changes nothing\)"),
        (lambda: lk.QuadraticSmoothing(1, 4), "curve is 4; allowed are numbers from 1 to 3"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        make()
