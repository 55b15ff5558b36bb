"""Mark rows as finished that ended without an EOS, such as rows that consist of padding."""

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
    """Return a state in which some rows are finished, and the others are unchanged.

    Args:
        processor: The processor of the state. A user's class without `finish` is advanced by an EOS, if it knows one; otherwise
            its state is unchanged.
        state: The state of B rows.
        rows: [B] bool, on the state's device.
    """
    if isinstance(processor, Chain):
        return tuple(finished(p, s, rows) for p, s in zip(processor.processors, state, strict=True))
    if declares(processor, "finish"):
        return processor.finish(state, rows)  # type: ignore[attr-defined]
    ends = eos_ids_of(processor) if is_foreign(processor) else ()
    return advance_checked(processor, state, torch.where(rows, ends[0], -1)) if ends else state
