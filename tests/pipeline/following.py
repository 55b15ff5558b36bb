"""Requests whose rows an engine moves about, and what each is alone: replayed from its prompt, in a batch of its own."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from logitkit.batching import BatchedRequests, NewRequest
from tests.registry import vocabulary

CONFIGURATIONS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"regex": "[0-9a-z]*", "repetition_penalty": 1.3},
    {"presence_penalty": 2.0, "stop_strings": ["cat"]},
    {"min_new_tokens": 3, "top_k": 9},
    {"xtc": {"probability": 0.7, "threshold": 0.01}},
    {"json_schema": {"type": "array", "items": {"$ref": "#"}}},
)


@cache
def processor(number: int) -> lk.Processor[Any] | None:
    config = CONFIGURATIONS[number % len(CONFIGURATIONS)]
    return None if config is None else lk.from_config(config, vocabulary())


class Request:
    """A request, with the engine's list of its output."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.processor = processor(number)
        self.prompt = [3 + number % 40, 7]
        self.output: list[int] = []

    def new(self, output: list[int]) -> NewRequest | None:
        return None if self.processor is None else NewRequest(self.processor, self.prompt, output, self.number)

    def alone(self, output: list[int], logits: Tensor) -> Tensor:
        """Return the processed logits of a row, [V], after an output."""
        batch = BatchedRequests("cpu", vocabulary().eos_ids)
        batch.arrange([self.new(output)])
        return batch.process_logits(logits[None].clone())[0]


def batch() -> BatchedRequests:
    return BatchedRequests(torch.device("cpu"), vocabulary().eos_ids)
