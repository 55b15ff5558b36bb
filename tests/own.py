"""Processors of a user's own, for the tests of registration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

import logitkit as lk

UNIT = {"type": "number", "minimum": 0, "maximum": 1}


@dataclass(frozen=True)
class OwnTopA:
    """Top-a sampling: keeps the tokens with at least `a` times the squared highest probability. It remembers nothing."""

    a: float

    role = lk.Role.TRUNCATION
    parameters: ClassVar[Any] = {"a": UNIT}
    examples = ({"a": 0.2}, {"a": 0.9})
    may_empty_rows = False

    def init_state(self, context: lk.Context) -> Any:
        return ()

    def advance(self, state: Any, tokens: Tensor) -> Any:
        return state

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        p = logits.float().softmax(-1)
        return state, logits.masked_fill(p < self.a * p.amax(-1, keepdim=True) ** 2, -torch.inf)


class Counts(NamedTuple):
    tokens: Tensor  # [B] int64


@dataclass(frozen=True)
class EveryNth:
    """Allows only one token at every n-th place of the output. It counts, and `process_logits` reads its own parameters."""

    n: int
    token: int
    fails_at: int = -1

    role = lk.Role.CONSTRAINT
    parameters: ClassVar[Any] = {
        "n": {"type": "integer", "minimum": 1, "maximum": 100},
        "token": {"type": "integer", "minimum": 0},
        "fails_at": {"type": "integer"},
    }
    examples = ({"n": 2, "token": 0}, {"n": 3, "token": 1})

    def init_state(self, context: lk.Context) -> Any:
        return Counts(context.lengths - context.prompt_lengths)

    def advance(self, state: Any, tokens: Tensor) -> Any:
        return Counts(state.tokens + lk.count_tokens(tokens))

    def process_logits(self, state: Any, logits: Tensor, context: lk.Context) -> Any:
        if (state.tokens == self.fails_at).any():
            raise RuntimeError("it fails here")
        due = (state.tokens + 1) % self.n == 0
        others = torch.arange(logits.shape[1], device=logits.device) != self.token
        return state, logits.masked_fill(due[:, None] & others, -torch.inf)
