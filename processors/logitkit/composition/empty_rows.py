"""Rows that a processor leaves nothing: they end, or the processor is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError, ProcessorError
from logitkit.protocol.calls import by_tensors
from logitkit.protocol.processor import Processor, name_of
from logitkit.runtime.host_logits import is_empty
from logitkit.runtime.row_mask import as_array, drop_nan

__all__ = ["end_rows", "name_empty_row"]


def end_rows(logits: Tensor, eos_ids: Sequence[int]) -> Tensor:
    """Give EOS the logit 0 in rows that have nothing left; NaN counts as -inf, and becomes it.

    Args:
        logits: [B, V] floating point, which may be overwritten.
        eos_ids: What ends a row, at least one id.

    Raises:
        ConfigurationError: An id is none of the columns.
    """
    if max(eos_ids) >= logits.shape[1]:
        raise ConfigurationError(
            f"{max(eos_ids)} is to end rows, but the logits have {logits.shape[1]} columns; give ids of the model in eos_ids"
        )
    if by_tensors(logits):
        there = logits > -torch.inf
        ends = torch.tensor(eos_ids, device=logits.device)
        logits = torch.where(there, logits, -torch.inf)
        kept = logits.index_select(1, ends)
        return logits.index_copy_(1, ends, torch.where(there.any(1, keepdim=True), kept, torch.zeros_like(kept)))
    array, never, zero = as_array(logits)
    for row in array:
        drop_nan(row, never)
        if is_empty(row, never):
            row[list(eos_ids)] = zero
    return logits


def name_empty_row(processors: Sequence[Processor[Any]], logits: Tensor) -> None:
    """Raise for a row that has nothing left; on a device this waits for it.

    Args:
        processors: Those at fault.
        logits: [B, V] floating point; on the CPU NaN becomes -inf.

    Raises:
        ProcessorError: There is one.
    """
    if by_tensors(logits):
        empty = (~(logits > -torch.inf).any(1)).nonzero()[:1, 0].tolist()
    else:
        array, never, _ = as_array(logits)
        for row in array:
            drop_nan(row, never)
        empty = [number for number, row in enumerate(array) if is_empty(row, never)][:1]
    if empty:
        raise ProcessorError(
            f"after {', '.join(map(name_of, processors))} row {empty[0]} has no token left: all its logits are -inf or NaN, and "
            "nothing says what ends a row; leave it a token, or give the ids that end one: "
            "logitkit.chain(processor, eos_ids=[...])"
        )
