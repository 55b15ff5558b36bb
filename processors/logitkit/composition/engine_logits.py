"""The logits of an engine through a processor: without a gradient, without NaN, and no row without a token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import torch
from torch import Tensor

from logitkit.composition.chain import Chain
from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.empty_rows import end_rows, name_empty_row
from logitkit.protocol.calls import by_tensors, check_gradient, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import is_foreign, may_empty_rows
from logitkit.protocol.processor import Processor, name_of
from logitkit.runtime.row_mask import as_array, drop_nan

__all__ = ["process_for_engine"]

S = TypeVar("S")


def process_for_engine(
    processor: Processor[S],
    state: S,
    logits: Tensor,
    context: Context,
    eos_ids: Sequence[int] = (),
    overwrite: bool = True,
) -> Tensor:
    """Return an engine's logits as a processor leaves them.

    NaN counts as -inf, before and after the processor. A row that is left nothing ends with EOS, at logit 0, where the processor
    or the engine says what that is. Elsewhere it is an error; to see it on a device takes waiting for that device, which is done
    for functions and for classes of others alone.

    Args:
        processor: What to apply.
        state: Of the B rows.
        logits: [B, V] floating point.
        context: Of the rows.
        eos_ids: What ends a row in the engine, if it says.
        overwrite: Whether the logits may be overwritten.

    Returns:
        [B, V].

    Raises:
        ConfigurationError: The logits require a gradient.
        ProcessorError: The processor returns something else than the pair of the state given and of such logits; or it leaves a
            row nothing, and no EOS is known.
    """
    if logits.requires_grad:
        check_gradient(name_of(processor), logits)
    if by_tensors(logits):
        logits, broken = torch.nan_to_num(logits, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf), False
    else:
        logits = logits if overwrite else logits.clone()
        array, never, _ = as_array(logits)
        broken = True in [drop_nan(row, never) for row in array]
    if isinstance(processor, Chain):
        # It checks the calls of its parts, and returns the state that it is given.
        _, processed = processor.process_logits(state, logits, context)
        parts, at_fault = processor.processors, processor.at_fault
    else:
        processed = process_checked(processor, state, logits, context)
        parts = (processor,)
        at_fault = parts if may_empty_rows(processor) else ()
    if not at_fault and not broken:
        return processed
    if ends := eos_ids_of(processor) or eos_ids:
        return end_rows(processed, ends)
    if broken or any(map(is_foreign, at_fault)):
        name_empty_row(at_fault or parts, processed)
    return processed
