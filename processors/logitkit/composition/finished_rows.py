"""Rows that have ended without an EOS of their own, such as those of nothing but pads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from logitkit.composition.chain import Chain
from logitkit.composition.conflicts import eos_ids_of
from logitkit.protocol.calls import advance_checked
from logitkit.protocol.declared import declares, is_foreign
from logitkit.protocol.processor import Processor

__all__ = ["finished"]


def finished(processor: Processor[Any], state: Any, rows: Tensor) -> Any:
    """Return a state in which some rows have ended, and the others are as they are.

    Args:
        processor: The processor of the state. A foreign one without `finish` is shown an EOS, if it says what that is.
        state: Of B rows.
        rows: [B] bool, on the state's device.

    Returns:
        The state. What knows no EOS goes on as it was.
    """
    if isinstance(processor, Chain):
        return tuple(finished(p, s, rows) for p, s in zip(processor.processors, state, strict=True))
    if declares(processor, "finish"):
        return processor.finish(state, rows)  # type: ignore[attr-defined]
    ends = eos_ids_of(processor) if is_foreign(processor) else ()
    return advance_checked(processor, state, torch.where(rows, ends[0], -1)) if ends else state
