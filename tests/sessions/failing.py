"""A processor that fails."""

from __future__ import annotations

from typing import Any

import torch

import logitkit as lk


class Failing:
    """A processor that raises at one call."""

    def __init__(self, error: BaseException, at: int) -> None:
        self.error, self.left = error, at

    def init_state(self, context: lk.Context) -> tuple[()]:
        return ()

    def advance(self, state: tuple[()], tokens: torch.Tensor) -> tuple[()]:
        return state

    def process_logits(self, state: tuple[()], logits: torch.Tensor, context: lk.Context) -> tuple[tuple[()], Any]:
        self.left -= 1
        if self.left < 0:
            raise self.error
        return state, logits
