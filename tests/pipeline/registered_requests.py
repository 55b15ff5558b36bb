"""Requests with registered processors, together or by themselves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from logitkit.batching import NewRequest
from tests.batches import COLUMNS
from tests.own import EveryNth, OwnTopA
from tests.registry import vocabulary


def request(config: Any, prompt: Any = (), output: Any = (), **more: Any) -> NewRequest | None:
    return None if config is None else NewRequest(lk.from_config(config, vocabulary()), prompt, output, **more)


def logits_at(step: int, rows: int) -> Tensor:
    return torch.randn(rows, COLUMNS, generator=torch.Generator().manual_seed(step))


def alone(config: Any, prompt: list[int], outputs: list[int], logits: Tensor) -> Tensor:
    """The logits of a request by itself."""
    if config is None:
        return logits
    processor = lk.from_config(config, vocabulary())
    context = lk.Context.of([prompt], COLUMNS)
    state = processor.init_state(context)
    if outputs:
        state = processor.advance(state, torch.tensor([outputs]))
    return processor.process_logits(state, logits[None].clone(), context.at(context.lengths + len(outputs)))[1][0]


def register_own() -> None:
    lk.register("own_top_a", OwnTopA)
    lk.register("every_nth", EveryNth)
