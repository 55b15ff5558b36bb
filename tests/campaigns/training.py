"""Random chains of the registry's processors: replay finds what a loop over steps measured while sampling, and its gradient."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from unittest import mock

import torch
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from torch import Tensor

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.protocol import Role, role_of
from logitkit.training import state_blocks
from tests.campaigns.campaign import Campaign, drawn
from tests.campaigns.chains import BY_NAME, DTYPES, reason, role_of_row
from tests.registry import EOS
from tests.training.loops import COLUMNS, Sampled, derivatives, replay_of, sample

# A trainer has no second pass.
NAMES = sorted(name for name, row in BY_NAME.items() if not row.guided)


@dataclass(frozen=True)
class Case:
    """A chain that samples.

    Args:
        names: The names of registry rows, in the order of the chain.
        seed: The seed of prompts, logits and tokens.
        rows: The number of rows.
        steps: The most tokens of a row.
        dtype: The dtype of the logits.
        block: The most logits of a block, in rows.
        differentiates: Whether gradients are compared, which takes long.
    """

    names: tuple[str, ...]
    seed: int
    rows: int
    steps: int
    dtype: torch.dtype
    block: int
    differentiates: bool


@st.composite
def cases(draw: DrawFn) -> Case:
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=5))
    names.sort(key=lambda name: role_of_row(BY_NAME[name]) >= Role.TEMPERATURE)
    differentiates = draw(st.integers(0, 7)) == 0
    return Case(
        tuple(names),
        draw(st.integers(0, 2**32)),
        draw(st.integers(1, 4)),
        draw(st.integers(1, 3 if differentiates else 12)),
        torch.float64 if differentiates else draw(st.sampled_from(DTYPES)),
        draw(st.sampled_from([1, 3, 8, 1000])),
        differentiates,
    )


def check(case: Case, tried: Counter[str]) -> None:
    try:
        chain = lk.chain(*(BY_NAME[name].processor for name in case.names), eos_ids=[EOS])
    except (ConfigurationError, PatternTooLarge) as error:
        tried[f"chains refused: {reason(error)}"] += 1
        return
    sampled = sample(chain, case.seed, case.rows, case.steps, case.dtype)
    with mock.patch.object(state_blocks, "ON_HOST", case.block * COLUMNS):
        compare(chain, sampled, tried)
        on_host = any(BY_NAME[name].on_host for name in case.names)
        # A temperature near 0 makes gradients too steep to compare.
        if case.differentiates and not on_host and not any("least" in name for name in case.names):
            compare_gradients(chain, sampled, tried)


def sets_of(chain: lk.Chain, sampled: Sampled, tried: Counter[str]) -> list[Tensor | None]:
    """Return no kept sets, and those of the sampler if replay can use them."""
    try:
        replay_of(chain, sampled, kept=sampled.kept)
    except ConfigurationError as error:
        assert "with kept sets, replay cannot tell what" in str(error)  # noqa: PT017 - others are refused in words too
        tried["chains whose kept sets do not tell enough"] += 1
        return [None]
    return [None, sampled.kept]


def compare(chain: lk.Chain, sampled: Sampled, tried: Counter[str]) -> None:
    for kept in sets_of(chain, sampled, tried):
        found = replay_of(chain, sampled, kept=kept)
        torch.testing.assert_close(found.log_probs.double(), sampled.log_probs, atol=1e-4, rtol=1e-4)
        assert torch.equal(found.forced, sampled.forced), "other tokens are forced"
        if kept is None:
            torch.testing.assert_close(found.log_mass.double(), sampled.log_mass, atol=1e-4, rtol=1e-4)
    tried["tokens replayed"] += int((sampled.outputs >= 0).sum())
    tried["tokens that were forced"] += int(sampled.forced.sum())
    if any(role_of(p) in (Role.TEMPERATURE, Role.TRUNCATION) for p in chain.processors):
        tried["chains with kept sets of temperatures and truncations"] += 1


def compare_gradients(chain: lk.Chain, sampled: Sampled, tried: Counter[str]) -> None:
    expected = torch.zeros_like(sampled.logits)
    for row, step, line in derivatives(chain, sampled, exact=True):
        expected[row, step] = line
    for kept in sets_of(chain, sampled, tried):
        logits = sampled.logits.clone().requires_grad_()
        replay_of(chain, sampled, logits, kept=kept).log_probs.sum().backward()
        assert logits.grad is not None
        torch.testing.assert_close(logits.grad, expected, atol=1e-6, rtol=1e-6)
    tried["gradients of tokens"] += int((sampled.outputs >= 0).sum())


CAMPAIGN = Campaign(
    "training", "replay of random chains for training, with a loop over steps that samples", drawn(cases(), 60, check)
)
