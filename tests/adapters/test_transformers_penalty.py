"""RepetitionPenalty through the hook gives, token by token, what transformers' own argument gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import logitkit as lk
from logitkit_adapters.transformers import logits_processor
from tests.adapters.demo import model, tokenizer


def prompts(count: int = 3, length: int = 12) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(3, len(tokenizer()), (count, length), generator=generator)


def generate(ids: Tensor, **options: Any) -> Any:
    torch.manual_seed(3)
    defaults = {
        "max_new_tokens": 40,
        "do_sample": False,
        "return_dict_in_generate": True,
        "output_scores": True,
    }
    return model().generate(ids, **{"attention_mask": torch.ones_like(ids), **defaults, **options})


@pytest.mark.parametrize("penalty", [0.8, 1.3, 3.0])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="greedy"),
        pytest.param({"do_sample": True, "top_k": 20}, id="sampled"),
        pytest.param({"num_beams": 4, "num_return_sequences": 4}, id="beams"),
        pytest.param({"num_beams": 3, "do_sample": True, "top_k": 0}, id="sampled beams"),
    ],
)
def test_equal_to_the_argument(penalty: float, options: dict[str, Any]) -> None:
    theirs = generate(prompts(), repetition_penalty=penalty, **options)
    ours = generate(prompts(), logits_processor=[logits_processor(lk.RepetitionPenalty(penalty))], **options)
    assert torch.equal(ours.sequences, theirs.sequences)
    assert len(ours.scores) == len(theirs.scores)
    assert all(torch.equal(a, b) for a, b in zip(ours.scores, theirs.scores, strict=True))
    bare = generate(prompts(), **options)
    assert not torch.equal(ours.sequences[:, : bare.sequences.shape[1]], bare.sequences[:, : ours.sequences.shape[1]])


@pytest.mark.parametrize("told", ["attention_mask", "pad_id"])
def test_a_padded_row_is_penalised_like_the_row_alone(told: str) -> None:
    ids, pads = prompts(), 5
    padded = ids.clone()
    padded[0] = torch.cat([torch.zeros(pads, dtype=torch.int64), ids[0, : ids.shape[1] - pads]])
    mask = torch.ones_like(padded)
    mask[0, :pads] = 0
    known: dict[str, Any] = {"attention_mask": mask} if told == "attention_mask" else {"pad_id": 0}
    hook = logits_processor(lk.RepetitionPenalty(1.5), **known)
    written = generate(padded, attention_mask=mask, output_logits=True, logits_processor=[hook])
    alone = padded[:1, pads:]
    for step, (logits, scores) in enumerate(zip(written.logits, written.scores, strict=True)):
        row = torch.cat([alone, written.sequences[:1, padded.shape[1] : padded.shape[1] + step]], dim=1)
        expected = logits_processor(lk.RepetitionPenalty(1.5))(row, logits[:1])
        assert torch.equal(scores[:1], expected)
        assert scores[0, 0] == logits[0, 0] or 0 in row


def test_a_draft_is_penalised_for_what_is_before_it() -> None:
    ids = prompts(1)
    options = {"prompt_lookup_num_tokens": 3, "return_dict_in_generate": False, "output_scores": False}
    ids = torch.cat([ids, ids], dim=1)
    ours = generate(ids, logits_processor=[logits_processor(lk.RepetitionPenalty(1.3))], **options)
    assert torch.equal(ours, generate(ids, repetition_penalty=1.3, return_dict_in_generate=False))
