"""Rows that a mask has cut off: all tokens that it allows were banned before it, so the row ends with an incomplete text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.protocol.calls import process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor

__all__ = ["cut_off_rows"]


def cut_off_rows(
    processor: Processor[Any], state: Any, context: Context, given: Tensor, processed: Tensor, eos_ids: Sequence[int]
) -> list[int]:
    """Return the rows that end because of what is banned in the given logits, although the processor would continue them.

    Args:
        processor: The processor.
        state: The state of B rows.
        context: Their context.
        given: [B, V] the logits before the processor, on the CPU.
        processed: [B, V] the logits after it.
        eos_ids: The ids that end a row, each of them a column.
    """
    ends = list(eos_ids)
    # An ended row has only EOS, at 0.
    at_zero = (processed[:, ends] == 0).any(1).nonzero()[:, 0].tolist()
    ended = [row for row in at_zero if int((processed[row] > -torch.inf).sum()) <= len(ends)]
    if not ended:
        return []
    allowed = process_checked(processor, state, torch.zeros_like(given), context) > -torch.inf
    # If the processor itself leaves nothing, it allows nothing here, or only EOS.
    going_on = [row for row in ended if bool(allowed[row].any()) and not bool(allowed[row, ends].any())]
    return [row for row in going_on if not bool((given[row][allowed[row]] > -torch.inf).any())]
