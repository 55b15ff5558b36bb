"""One step of a processor on one row, for expectations written out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import logitkit as lk

NEVER = -torch.inf


def after(
    processor: lk.Processor[Any], tokens: Sequence[int], logits: Sequence[float], prompt: Sequence[int] = ()
) -> list[float]:
    """Return what the processor makes of the logits when a row has a prompt and some tokens of output."""
    context = lk.Context.of([prompt], vocabulary_size=len(logits))
    state = processor.init_state(context)
    if tokens:
        state = processor.advance(state, torch.tensor([list(tokens)]))
    _, processed = processor.process_logits(state, torch.tensor([list(logits)]), context)
    values: list[float] = processed[0].tolist()
    return values
