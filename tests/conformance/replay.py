"""Whether a hook did in every call what the core does with the same history: what must hold in any decode mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import logitkit as lk


class Replay:
    """Runs before and after a hook, and compares its result with the core's result for the row's tokens.

    Args:
        processor: The processor of the hook.
        prompt: The tokens that every row begins with.
    """

    def __init__(self, processor: lk.Processor[Any], prompt: Sequence[int]) -> None:
        self._processor, self._prompt = processor, list(prompt)
        self._before = torch.empty(0)
        self.calls = 0

    def before(self, logits: Tensor) -> None:
        """Remember the logits, [B, V], that the hook will be given."""
        self._before = logits.detach().clone()

    def behind(self, histories: Sequence[Sequence[int]], logits: Tensor) -> None:
        """Assert that the hook made of them what it should have, for rows with these tokens, prompt included."""
        rows, given = torch.tensor(histories), self._before
        assert len(rows) == len(given) == len(logits)
        assert (rows[:, : len(self._prompt)] == torch.tensor(self._prompt)).all()
        context = lk.Context.of([self._prompt] * len(rows), given.shape[1])
        state, output = self._processor.init_state(context), rows[:, len(self._prompt) :]
        if output.shape[1]:
            state = self._processor.advance(state, output)
        assert torch.equal(logits.detach(), self._processor.process_logits(state, given.clone(), context)[1])
        self.calls += len(rows)
