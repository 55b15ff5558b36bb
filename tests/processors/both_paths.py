"""Logits for processors that compare them, and one step of a processor on both of its paths."""

from __future__ import annotations

from typing import Any
from unittest import mock

import torch
from torch import Tensor

import logitkit as lk


def ordinary(seed: int, width: int) -> Tensor:
    """Three rows of logits as models give them, some at -inf."""
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(3, width, generator=rng) * torch.tensor([[1.0], [4.0], [12.0]]) + 3
    masked = torch.rand(3, width, generator=rng) < torch.tensor([[0.0], [0.2], [0.8]])
    masked[:, seed % width] = False
    return logits.masked_fill(masked, -torch.inf)


def tied(seed: int, width: int) -> Tensor:
    """Three rows of logits of which many are equal."""
    rng = torch.Generator().manual_seed(seed)
    return torch.randint(-3, 4, (3, width), generator=rng).float() / 2


def host(processor: lk.Processor[Any], logits: Tensor) -> Tensor:
    context = lk.Context.of([[]] * len(logits), logits.shape[1])
    return processor.process_logits(processor.init_state(context), logits.clone(), context)[1]


def by_tensors(processor: lk.Processor[Any], logits: Tensor) -> Tensor:
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        return host(processor, logits)


def tensors_only(processor: Any, state: Any, logits: Tensor) -> Tensor:
    """Process logits in a given state, as in a compiled graph and on an accelerator."""
    context = lk.Context.of([[]] * len(logits), logits.shape[1])
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        return processor.process_logits(state, logits.clone(), context)[1]  # type: ignore[no-any-return]


def both_paths(processor: lk.Processor[Any], logits: Tensor) -> Tensor:
    """Process the first step's logits on the host, having seen that tensors alone give the same."""
    out = host(processor, logits)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[logits.dtype.itemsize]
    assert out.view(bits).equal(by_tensors(processor, logits).view(bits))
    return out
