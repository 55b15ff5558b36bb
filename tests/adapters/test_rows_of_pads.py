"""A row of nothing but left pads: it has ended, and only EOS and pads come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import logitkit as lk
from logitkit_adapters.transformers import logits_processor
from tests.adapters.demo import model, text_of, tokenizer, vocabulary

COLOUR = lk.Regex(" (red|green|blue)", vocabulary())
EOS, PAD = tokenizer().eos_token_id, tokenizer().pad_token_id

PROCESSORS: list[lk.Processor[Any]] = [
    COLOUR,
    lk.chain(lk.RepetitionPenalty(1.2), COLOUR, lk.TopK(5)),
    lk.chain(lk.ForcedTokens(tokenizer()(" red").input_ids), COLOUR),
    lk.JsonSchema({"type": "array", "items": {"type": "boolean"}}, vocabulary()),
    lk.BannedStrings(["a"], vocabulary()),
    lk.StopStrings(["."], vocabulary()),
]


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    inputs = tokenizer()(
        ["The price of the lamp is", "The price"], return_tensors="pt", padding=True, padding_side="left"
    )
    ids = torch.cat([inputs["input_ids"], torch.full_like(inputs["input_ids"][:1], PAD)])
    return ids, torch.cat([inputs["attention_mask"], torch.zeros_like(inputs["attention_mask"][:1])])


@pytest.mark.parametrize("processor", PROCESSORS, ids=lambda p: type(p).__name__)
@pytest.mark.parametrize("told", ["attention_mask", "pad_id"])
def test_it_has_ended_in_a_batch(processor: lk.Processor[Any], told: str) -> None:
    ids, mask = batch()
    hook = logits_processor(processor, **{told: mask if told == "attention_mask" else PAD})  # type: ignore[arg-type]
    new = model().generate(ids, attention_mask=mask, max_new_tokens=6, do_sample=False, logits_processor=[hook])
    new = new[:, ids.shape[1] :]
    assert set(new[2].tolist()) <= {EOS, PAD}
    # The others are written as they are without it.
    alone = logits_processor(processor, **{told: mask[:2] if told == "attention_mask" else PAD})  # type: ignore[arg-type]
    wanted = model().generate(
        ids[:2], attention_mask=mask[:2], max_new_tokens=6, do_sample=False, logits_processor=[alone]
    )
    width = wanted.shape[1] - ids.shape[1]
    assert torch.equal(new[:2, :width], wanted[:, ids.shape[1] :])


def test_beams_of_it_have_ended_too() -> None:
    ids, mask = batch()
    hook = logits_processor(COLOUR, attention_mask=mask)
    new = model().generate(ids, attention_mask=mask, num_beams=3, max_new_tokens=9, logits_processor=[hook])
    assert set(new[2, ids.shape[1] :].tolist()) <= {EOS, PAD}
    assert text_of(new[0, ids.shape[1] :]) in (" red", " green", " blue")


def test_the_state_says_so_and_a_row_without_pads_and_prompt_goes_on() -> None:
    hook = logits_processor(COLOUR, attention_mask=torch.tensor([[0, 0], [0, 1]]))
    hook(torch.tensor([[PAD, PAD], [PAD, 9]]), torch.zeros(2, 1280))
    assert COLOUR.is_finished(hook.state).tolist() == [True, False]
    hook(torch.tensor([[PAD, PAD, EOS], [PAD, 9, 9]]), torch.zeros(2, 1280))
    assert COLOUR.is_finished(hook.state).tolist() == [True, False]
    empty = logits_processor(COLOUR, prompt=[[]])
    first = tokenizer()(" red").input_ids[-1]
    empty(torch.tensor([[first]]), torch.zeros(1, 1280))
    assert COLOUR.is_finished(empty.state).tolist() == [False]


def test_in_mlx_lm_and_llama_cpp() -> None:
    import mlx.core as mx

    from logitkit_adapters.llama_cpp import logits_processor as llama_processor
    from logitkit_adapters.mlx_lm import logits_processor as mlx_processor

    hook = mlx_processor(COLOUR, attention_mask=[0, 0])
    assert (np.array(hook(mx.array([PAD, PAD]), mx.zeros((1, 1280))))[0] == 0).nonzero()[0].tolist() == [PAD, EOS]
    (other,) = llama_processor(COLOUR, pad_id=PAD)
    found = other(np.array([PAD, PAD], np.intc), np.zeros(1280, np.single))
    assert (found == 0).nonzero()[0].tolist() == [PAD, EOS]
