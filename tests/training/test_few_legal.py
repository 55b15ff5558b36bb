"""The way back of rows with few legal tokens, against whole rows as the sampler processes them, and differences of these."""

from __future__ import annotations

import pytest
import torch

import logitkit as lk
from logitkit.training.few_legal import FewLegal, FewPass
from logitkit.training.rollouts import Rollouts
from logitkit.training.state_blocks import blocks_of

COLUMNS = 64

CHAINS = {
    "bias": lk.chain(lk.LogitBias({3: 2.0, 9: -1.0})),
    "shifts": lk.chain(lk.FrequencyPenalty(0.5), lk.PresencePenalty(0.25), lk.Dry(1.0, allowed_length=1, breakers=())),
    "scales": lk.chain(lk.RepetitionPenalty(1.5), lk.Temperature(0.7)),
    "all": lk.chain(lk.RepetitionPenalty(1.5), lk.LogitBias({5: 1.0}), lk.Temperature(0.7), lk.FrequencyPenalty(0.5)),
    "overflow": lk.chain(lk.Temperature(1e-4)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_few_tokens_are_processed_as_in_whole_rows(name: str) -> None:
    chain, generator = CHAINS[name], torch.Generator().manual_seed(1)
    outputs = torch.randint(10, (3, 7), generator=generator)
    logits = torch.randn(3, 7, COLUMNS, generator=generator, dtype=torch.float64)
    if name == "overflow":
        logits *= 1e306
    legal = torch.rand(3, 7, COLUMNS, generator=generator) < 0.2
    legal[..., :10] |= torch.rand(3, 7, 10, generator=generator) < 0.5
    legal.scatter_(2, outputs[..., None], True)
    (block,) = blocks_of(Rollouts.of(chain, [[3, 9, 3]] * 3, outputs, logits))
    at = block.rows, block.steps
    few = FewLegal.of(lk.training.kept(logits[at], torch.where(legal[at], logits[at], -torch.inf)))
    given, columns = few.take(logits[at]), torch.full((21, COLUMNS), -torch.inf, dtype=torch.float64)

    def processed(change: float) -> torch.Tensor:
        whole = torch.where(legal[at], logits[at] + change, -torch.inf)
        return few.take(chain.process_logits(block.state, whole, block.context)[1])

    made = FewPass(block, few, given, columns)
    made.run(kept=False)
    assert torch.equal(made.logits, processed(0))
    assert torch.equal(columns, torch.full_like(columns, -torch.inf))
    if name == "overflow":
        assert made.logits.isfinite().all()
    else:
        torch.testing.assert_close(made.slopes, (processed(1e-7) - processed(-1e-7)) / 2e-7, atol=1e-6, rtol=1e-6)


def test_truncations_do_not_run_on_kept_tokens() -> None:
    chain = lk.chain(lk.Temperature(0), lk.TopK(1))
    (block,) = blocks_of(Rollouts.of(chain, [[]], [[1]], torch.zeros(1, 1, 4)))
    few = FewLegal.of(torch.tensor([[0b110]], dtype=torch.int32))
    made = FewPass(block, few, torch.tensor([1.0, 2.0]), torch.full((1, 4), -torch.inf))
    made.run(kept=True)
    assert made.logits.tolist() == [1, 2]
    assert made.slopes.tolist() == [1, 1]
