"""Every row of the registry: replay finds what a loop over steps measured while sampling, and the gradient that torch finds."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit.protocol import Role, role_of
from tests.examples import CI
from tests.registry import EOS, ONE_PASS, Row
from tests.training.loops import derivatives, replay_of, sample

every_row = pytest.mark.parametrize("row", ONE_PASS, ids=str)
# Torch compiles rules for dual numbers at their first use.
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")

# One row of each class in each kind: differences are slow, and torch judges the others.
ONE_OF_EACH = list({(row.kind, type(row.processor)): row for row in ONE_PASS}.values())
OTHERS = [row for row in ONE_OF_EACH if role_of(row.processor) is not Role.CONSTRAINT]
few = settings(max_examples=8 if CI else 2, deadline=None)
seeds = given(st.integers(0, 2**32))


def rows_for(row: Row) -> int:
    return getattr(row.processor, "batch_size", None) or 3


@every_row
@few
@seeds
def test_replay_is_what_was_sampled(row: Row, seed: int) -> None:
    sampled = sample(row.processor, seed, rows_for(row))
    found = replay_of(row.processor, sampled)
    torch.testing.assert_close(found.log_probs.double(), sampled.log_probs, atol=3e-6, rtol=1e-5)
    assert torch.equal(found.forced, sampled.forced)
    torch.testing.assert_close(found.log_mass.double(), sampled.log_mass, atol=1e-5, rtol=1e-5)


@every_row
@few
@seeds
def test_kept_sets_replace_what_depends_on_logits(row: Row, seed: int) -> None:
    sampled = sample(row.processor, seed, rows_for(row))
    found = replay_of(row.processor, sampled, kept=sampled.kept)
    torch.testing.assert_close(found.log_probs.double(), sampled.log_probs, atol=3e-6, rtol=1e-5)
    assert torch.equal(found.forced, sampled.forced)


@pytest.mark.parametrize("row", ONE_PASS if CI else ONE_OF_EACH, ids=str)
@pytest.mark.parametrize("seed", [1, 2] if CI else [1])
def test_the_gradient_is_that_of_a_loop(row: Row, seed: int) -> None:
    sampled = sample(row.processor, seed, rows_for(row), steps=5, dtype=torch.float64)
    weights = torch.randn(sampled.outputs.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    logits = sampled.logits.clone().requires_grad_()
    (replay_of(row.processor, sampled, logits).log_probs * weights).sum().backward()
    assert logits.grad is not None
    expected = torch.zeros_like(logits)
    for at, step, line in derivatives(row.processor, sampled, exact=not row.on_host):
        expected[at, step] = line * weights[at, step]
    tolerance = 1e-5 if row.on_host else 1e-9
    torch.testing.assert_close(logits.grad, expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("row", [row for row in OTHERS if "least" not in row.name], ids=str)
def test_the_gradient_is_that_of_differences(row: Row) -> None:
    sampled = sample(row.processor, 5, rows_for(row), steps=3, dtype=torch.float64)
    logits = sampled.logits.clone().requires_grad_()
    replay_of(row.processor, sampled, logits).log_probs.sum().backward()
    assert logits.grad is not None
    for at, step, line in derivatives(row.processor, sampled, exact=False):
        torch.testing.assert_close(logits.grad[at, step], line, atol=1e-6, rtol=1e-5)


def test_the_samples_end_and_are_forced_often_enough_to_mean_something() -> None:
    ends = forced = masked = 0
    for row in ONE_PASS:
        sampled = sample(row.processor, 1, rows_for(row))
        ends += int((sampled.outputs == EOS).sum())
        forced += int(sampled.forced.sum())
        masked += int((sampled.log_mass < -0.1).sum())
    assert min(ends, forced, masked) > 100
