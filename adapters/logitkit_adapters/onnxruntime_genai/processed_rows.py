"""The processor of a loop that computes its own logits: its state for all rows, at every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from logitkit.composition.engine_logits import EngineLogits
from logitkit.protocol.calls import advance_checked, init_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor

__all__ = ["ProcessedRows"]


class ProcessedRows:
    """A processor and its state for the rows of a batch.

    Args:
        processor: The processor.
        prompts: The tokens of each prompt.
        columns: The number of columns of the logits.
        max_new_tokens: The maximum number of new tokens of each row.
        eos_ids: The EOS ids of the engine.
    """

    def __init__(
        self,
        processor: Processor[Any],
        prompts: Sequence[Sequence[int]],
        columns: int,
        max_new_tokens: int,
        eos_ids: Sequence[int],
    ) -> None:
        self._processor, self._eos_ids = processor, eos_ids
        self._process = EngineLogits(processor)
        context = Context.of(prompts, columns, max_length=max(map(len, prompts)) + max_new_tokens)
        self._context = replace(context, max_lengths=context.lengths + max_new_tokens)
        self.state = init_checked(processor, self._context)
        # Whether each row ended because no token was left.
        self.emptied = np.zeros(len(prompts), np.bool_)

    def process(self, logits: NDArray[np.float32]) -> None:
        """Process logits, [B, V], in place.

        Raises:
            BrokenLogits: The logits of a row are broken.
            Exception: Any error of the processor.
        """
        given = torch.from_numpy(logits)
        processed = self._process(self.state, given, self._context, self._eos_ids)
        if processed is not given:
            given.copy_(processed)
        if self._process.emptied is not None:
            self.emptied |= self._process.emptied.numpy()

    def advance(self, tokens: Sequence[int]) -> None:
        """Advance every row by its token, or by none where it is -1."""
        given = torch.tensor(tokens, dtype=torch.int64)
        self.state = advance_checked(self._processor, self.state, given)
        self._context = self._context.at(self._context.lengths + (given >= 0))
