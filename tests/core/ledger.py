"""A processor whose state is the whole truth: the prompt and the tokens of each row, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit import Context, Fill

WIDTH = 400


class LedgerState(NamedTuple):
    """The prompt of each row and the tokens after it; the prompt's position is the row's stream."""

    prompt: Annotated[Tensor, Fill(-1)]  # [B, WIDTH] int64
    tokens: Annotated[Tensor, Fill(-1)]  # [B, WIDTH] int64
    written: Tensor  # [B] int64, how many tokens
    stream: Tensor  # [B] int64, the row's index when it began


@dataclass(frozen=True)
class Ledger:
    """Write down every token; `calls` lists, for tests, the tokens per row of every `advance`, and "init"."""

    calls: list[int | str] = field(default_factory=list, compare=False)
    fail_on: int | None = None

    def init_state(self, context: Context) -> LedgerState:
        self.calls.append("init")
        rows, width = context.prompt.shape
        prompt = torch.full((rows, WIDTH), -1)
        prompt[:, :width] = context.prompt
        return LedgerState(
            prompt, torch.full((rows, WIDTH), -1), torch.zeros(rows, dtype=torch.int64), torch.arange(rows)
        )

    def advance(self, state: LedgerState, tokens: Tensor) -> LedgerState:
        self.calls.append(1 if tokens.dim() == 1 else tokens.shape[1])
        if self.fail_on is not None and bool((tokens == self.fail_on).any()):
            raise RuntimeError("the processor fails")
        written, count = state.tokens.clone(), state.written.clone()
        for column in (tokens[:, None] if tokens.dim() == 1 else tokens).unbind(1):
            rows = torch.nonzero(column >= 0)[:, 0]
            written[rows, count[rows]] = column[rows]
            count[rows] += 1
        return state._replace(tokens=written, written=count)

    def process_logits(self, state: LedgerState, logits: Tensor, context: Context) -> tuple[LedgerState, Tensor]:
        return state, logits


def rows_of(state: LedgerState) -> list[tuple[list[int], list[int]]]:
    """Return the prompt and the tokens of each row."""
    return [
        ([t for t in prompt if t >= 0], tokens[:count])
        for prompt, tokens, count in zip(
            state.prompt.tolist(), state.tokens.tolist(), state.written.tolist(), strict=True
        )
    ]
