"""Effective sample sizes and resampling: by hand, and the numbers of copies."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from logitkit.errors import ArgumentTypeError, ConfigurationError
from logitkit.particles import ancestors, effective_sample_size
from logitkit.particles.weights import log_mean, normalized

WEIGHTS = st.lists(st.floats(0, 100), min_size=1, max_size=12).filter(lambda ws: sum(ws) > 1e-3)


@given(WEIGHTS, st.floats(-700, 700))
def test_the_effective_sample_size_is_the_quotient_of_squares(weights: list[float], scale: float) -> None:
    wanted = sum(weights) ** 2 / sum(w * w for w in weights)
    found = effective_sample_size(torch.tensor(weights, dtype=torch.float64).log() + scale)
    assert found == pytest.approx(wanted, rel=1e-6)
    assert 1 - 1e-9 <= found <= len(weights) + 1e-9


@given(WEIGHTS)
def test_means_and_sums_of_logarithms(weights: list[float]) -> None:
    logs = torch.tensor(weights, dtype=torch.float64).log()
    assert log_mean(logs) == pytest.approx(math.log(sum(weights) / len(weights)), abs=1e-9)
    assert normalized(logs).exp().tolist() == pytest.approx([w / sum(weights) for w in weights], abs=1e-12)


def test_weights_of_zero() -> None:
    nothing = torch.full((3,), -torch.inf)
    assert effective_sample_size(nothing) == 0
    assert log_mean(nothing) == -torch.inf
    assert normalized(nothing).tolist() == [-torch.inf] * 3
    with pytest.raises(ConfigurationError, match="all weights are 0"):
        ancestors(nothing, "systematic", seed=0, stream=0, position=0)


@given(WEIGHTS, st.integers(0, 2**63 - 1), st.integers(0, 1000))
def test_systematic_copies_differ_from_the_expected_number_by_less_than_one(
    weights: list[float], seed: int, position: int
) -> None:
    rows = ancestors(torch.tensor(weights).log(), "systematic", seed=seed, stream=5, position=position).tolist()
    assert rows == sorted(rows)
    assert len(rows) == len(weights)
    total = sum(torch.tensor(weights).double().tolist())
    for place, weight in enumerate(torch.tensor(weights).double().tolist()):
        assert abs(rows.count(place) - weight / total * len(weights)) < 1 + 1e-4
        assert weight or place not in rows


@pytest.mark.parametrize("scheme", ["systematic", "multinomial"])
def test_the_mean_number_of_copies_is_proportional_to_the_weight(scheme: str) -> None:
    weights = torch.tensor([0.05, 0.0, 0.5, 0.15, 0.3])
    runs, counts = 4000, torch.zeros(5)
    for seed in range(runs):
        rows = ancestors(weights.log() - 3, scheme, seed=seed, stream=5, position=7)
        counts += torch.bincount(rows, minlength=5)
    assert counts[1] == 0
    error = (weights * (1 - weights) / (5 * runs)).sqrt()
    assert bool(((counts / (5 * runs) - weights).abs() <= 4 * error).all())


def test_multinomial_copies_vary_more() -> None:
    weights = torch.tensor([0.25, 0.25, 0.25, 0.25]).log()
    systematic = {tuple(ancestors(weights, "systematic", seed=s, stream=4, position=0).tolist()) for s in range(50)}
    multinomial = {tuple(ancestors(weights, "multinomial", seed=s, stream=4, position=0).tolist()) for s in range(50)}
    assert systematic == {(0, 1, 2, 3)}
    assert len(multinomial) > 15


@pytest.mark.parametrize(
    ("given_weights", "message"),
    [
        (torch.zeros(0), "at least one number"),
        (torch.zeros(2, 2), r"shape \[2, 2\]"),
        (torch.zeros(2, dtype=torch.int64), "int64"),
        (torch.tensor([0.0, torch.nan]), "NaN or"),
        (torch.tensor([0.0, torch.inf]), "NaN or"),
    ],
)
def test_weights_that_are_refused(given_weights: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        effective_sample_size(given_weights)
    with pytest.raises(ConfigurationError, match=message):
        ancestors(given_weights, "systematic", seed=0, stream=0, position=0)


def test_a_list_and_an_unknown_scheme_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="log_weights is of type list"):
        effective_sample_size([0.0])  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="'stratified'; allowed are 'systematic' and 'multinomial'"):
        ancestors(torch.zeros(2), "stratified", seed=0, stream=0, position=0)
