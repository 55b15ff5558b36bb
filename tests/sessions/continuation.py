"""Shared by the tests of `continuous`: prompts, the logits of each forward pass, and a run without any cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from logitkit import SequenceState

# Of 20 tokens with the tokenizer of the shipped model.
PROMPT = "Name: Emma Brown\nAge: 125\nEmail: emma.brown@"
QUESTION = "Question: Is Paris in France?\nAnswer:"
PROMPTS = [PROMPT, "Item: pen\nPrice:", "The meeting is on"]


@contextmanager
def last_logits(model: Any) -> Iterator[list[Tensor]]:
    """Collect the logits [R, V] of the last column of each forward pass."""
    seen: list[Tensor] = []
    hook = model.register_forward_hook(lambda *given: seen.append(given[-1].logits[:, -1].clone()))
    try:
        yield seen
    finally:
        hook.remove()


def fresh_logits(model: Any, row: Sequence[int]) -> Tensor:
    """Return the logits [V] after a row, computed alone, without a cache, a mask or a pad."""
    with torch.no_grad():
        logits: Tensor = model(input_ids=torch.tensor([list(row)]), use_cache=False).logits[0, -1]
        return logits


def check_weights(model: Any, state: SequenceState, prompts: Sequence[int]) -> None:
    """Compare the weights with the log-probabilities of all tokens after the prompts, including a final EOS."""
    eos = model.generation_config.eos_token_id
    rows = [[*row, eos] if ended else row for row, ended in zip(state.rows, state.finished.tolist(), strict=True)]
    for row, prompt, weight in zip(rows, prompts, state.weights.reshape(-1).tolist(), strict=True):
        with torch.no_grad():
            likelihood = model(input_ids=torch.tensor([row])).logits[0].log_softmax(1)
        wanted = sum(float(likelihood[i - 1, row[i]]) for i in range(prompt, len(row)))
        assert abs(weight - wanted) < 1e-4, (weight, wanted)


def lengths(state: SequenceState) -> list[int]:
    return [len(row) for row in state.rows]
