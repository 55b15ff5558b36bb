"""Logits of an engine, processed: without NaN, and with a token left in every row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.composition.chain import Chain, members
from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.empty_rows import end_rows, name_empty_row
from logitkit.protocol.calls import by_tensors, check_gradient, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import is_foreign, may_empty_rows
from logitkit.protocol.processor import Processor, name_of
from logitkit.runtime.row_mask import as_array, drop_nan
from logitkit.runtime.single_row import can_step

__all__ = ["EngineLogits"]


class EngineLogits:
    """Run a processor on an engine's logits, so that no NaN comes out and no row is without a token.

    NaN counts as -inf, before and after the processor. A row without a token ends with EOS at logit 0, if the processor or the
    engine knows its EOS ids; otherwise it is an error. To find such rows on a device, the host has to wait for the device, so
    they are looked for only after functions and classes of users.

    Args:
        processor: The processor.
    """

    def __init__(self, processor: Processor[Any]) -> None:
        self._processor = processor
        of_single = tuple(p for p in members(processor) if may_empty_rows(p))
        self._at_fault = processor.at_fault if isinstance(processor, Chain) else of_single
        self._eos_ids = eos_ids_of(processor)
        # The mask of an automaton replaces NaN itself, so the logits need not be read for it once more.
        self._replaces_nan = can_step(processor)

    def __call__(
        self, state: Any, logits: Tensor, context: Context, eos_ids: Sequence[int] = (), overwrite: bool = True
    ) -> Tensor:
        """Return the processed logits.

        Args:
            state: The state of B rows.
            logits: [B, V] floating point.
            context: The context of the rows.
            eos_ids: The EOS ids of the engine, if known.
            overwrite: Whether the logits may be overwritten.

        Returns:
            [B, V].

        Raises:
            ConfigurationError: The logits require a gradient.
            ProcessorError: The processor returns something other than the pair of the given state and logits of the same shape
                and dtype, or it leaves a row without a token and no EOS is known.
        """
        if logits.requires_grad:
            check_gradient(name_of(self._processor), logits)
        broken = False
        if by_tensors(logits):
            logits = torch.nan_to_num(logits, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
        else:
            logits = logits if overwrite else logits.clone()
            if not self._replaces_nan:
                array, never, _ = as_array(logits)
                broken = True in [drop_nan(row, never) for row in array]
        if isinstance(self._processor, Chain):
            # A chain checks the calls of its processors.
            processed = self._processor.process_logits(state, logits, context)[1]
        else:
            processed = process_checked(self._processor, state, logits, context)
        if not self._at_fault and not broken:
            return processed
        if ends := self._eos_ids or eos_ids:
            return end_rows(processed, ends)
        if broken or any(map(is_foreign, self._at_fault)):
            name_empty_row(self._at_fault or members(self._processor), processed)
        return processed
