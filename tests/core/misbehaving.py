"""Processors of which each breaks one rule of the protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

import logitkit as lk
from logitkit.processor import Role


class Count(NamedTuple):
    tokens: Tensor


@dataclass(frozen=True)
class Counter:
    """Counts tokens, and does as told otherwise.

    Args:
        result: What `process_logits` returns, from the state and the logits.
        after: What `advance` returns, from the next state.
    """

    result: Callable[[Any, Tensor], Any] = lambda state, logits: (state, logits)
    after: Callable[[Any], Any] = lambda state: state

    def init_state(self, context: lk.Context) -> Any:
        return Count(torch.zeros(context.batch_size, dtype=torch.int64))

    def advance(self, state: Any, tokens: Tensor) -> Any:
        real = (tokens >= 0).reshape(len(state.tokens), -1).sum(1)
        return self.after(Count(state.tokens + real))

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        return self.result(state, logits)


@dataclass(frozen=True)
class Truncation(Counter):
    """Stands for top-k and the like."""

    role: ClassVar[Role] = Role.TRUNCATION
