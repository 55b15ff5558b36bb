"""Whether a hook did in every call what the core does with the same history: what must hold in any decode mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
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

    def around(self, hook: Any) -> list[Any]:
        """Return a hook of an mlx engine between two others that watch it."""

        def before(_: Any, logits: Any) -> Any:
            self.before(torch.from_numpy(np.array(logits)))
            return logits

        def behind(tokens: Any, logits: Any) -> Any:
            self.behind([tokens.tolist()], torch.from_numpy(np.array(logits)))
            return logits

        return [before, hook, behind]

    def before(self, logits: Tensor) -> None:
        """Remember the logits, [B, V], that the hook will be given."""
        self._before = logits.detach().clone()

    def behind(self, histories: Sequence[Sequence[int]], logits: Tensor) -> None:
        """Assert that the hook made of them what it should have, for rows with these tokens, prompt included."""
        for ids, given, found in zip(histories, self._before, logits, strict=True):
            assert list(ids[: len(self._prompt)]) == self._prompt
            # Each row by itself, or rows that mix would be on both sides.
            context = lk.Context.of([self._prompt], len(given))
            state = self._processor.init_state(context)
            output = torch.tensor([list(ids[len(self._prompt) :])], dtype=torch.int64)
            if output.shape[1]:
                state = self._processor.advance(state, output)
            wanted = self._processor.process_logits(state, given[None].clone(), context)[1][0]
            assert torch.equal(found.detach(), wanted)
            self.calls += 1
