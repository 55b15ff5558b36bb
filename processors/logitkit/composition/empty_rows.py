"""Rows that processors leave without a token end, or an error names the processors; bans of an engine cut rows off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError, ProcessorError
from logitkit.protocol.calls import by_tensors, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, name_of
from logitkit.runtime.host_logits import is_empty
from logitkit.runtime.logit_arrays import as_array, drop_nan, is_broken

__all__ = ["cut_off_rows", "end_rows", "name_empty_row", "name_infinite_row"]


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


def end_rows(logits: Tensor, eos_ids: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    """Set the logit of EOS to 0 in rows without a token. NaN counts as -inf and is replaced by it.

    Args:
        logits: [B, V] floating point, which may be overwritten.
        eos_ids: The ids that end a row, at least one.

    Returns:
        The logits, and which rows had no token, [B] bool; None on the host if there were none.

    Raises:
        ConfigurationError: The logits have no column for an id.
    """
    if max(eos_ids) >= logits.shape[1]:
        raise ConfigurationError(
            f"eos_ids contains {max(eos_ids)}, but the logits have {logits.shape[1]} columns; give token ids of the model"
        )
    if by_tensors(logits):
        there = logits > -torch.inf
        logits, empty = torch.where(there, logits, -torch.inf), ~there.any(1)
        # One by one: a list of ids would be copied to the device, and the host would wait for that.
        for end in eos_ids:
            logits.select(1, end).masked_fill_(empty, 0)
        return logits, empty
    array, never, zero = as_array(logits)
    ended = []
    for number, row in enumerate(array):
        drop_nan(row, never)
        if is_empty(row, never):
            row[list(eos_ids)] = zero
            ended.append(number)
    if not ended:
        return logits, None
    empty = torch.zeros(len(array), dtype=torch.bool)
    empty[ended] = True
    return logits, empty


def name_empty_row(processors: Sequence[Processor[Any]], logits: Tensor) -> None:
    """Raise an error if a row has no token left. For logits on an accelerator, this waits for it.

    Args:
        processors: The processors that may have caused it.
        logits: [B, V] floating point; on the CPU, NaN is replaced by -inf.

    Raises:
        ProcessorError: A row has no token left.
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
            "no EOS id is known to end it; leave it a token, or give the EOS ids: logitkit.chain(processor, eos_ids=[...])"
        )


def name_infinite_row(processors: Sequence[Processor[Any]], logits: Tensor) -> bool:
    """Raise an error if a logit on the CPU is +inf, with which no probability can be computed.

    Args:
        processors: The processors that may have caused it.
        logits: [B, V] floating point.

    Returns:
        Whether it is known that every row has a token left, and no NaN.

    Raises:
        ProcessorError: A logit is +inf.
    """
    if by_tensors(logits):
        # A user's function has moved them.
        broken = list(range(len(logits)))
    else:
        array, never, _ = as_array(logits)
        # Comparing all logits takes ten times as long as finding the greatest, so only those of broken rows are compared.
        broken = [number for number, row in enumerate(array) if is_broken(row, never)]
    for number in broken:
        for token in (logits[number] == torch.inf).nonzero()[:1, 0].tolist():
            raise ProcessorError(
                f"after {', '.join(map(name_of, processors))} the logit of token {token} in row {number} is +inf; to force a "
                "token, ban all others with -inf"
            )
    return not broken and logits.shape[1] > 0
