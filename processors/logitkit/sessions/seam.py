"""Processor states at a seam, the point where one generation continues another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from logitkit.composition.chain import Chain
from logitkit.protocol.calls import advance_checked, init_checked
from logitkit.protocol.context import Context, padded
from logitkit.protocol.processor import Processor, Role, role_of

__all__ = ["state_at_seam"]


def state_at_seam(
    processor: Processor[Any],
    rows: Sequence[Sequence[int]],
    prompt_lengths: Sequence[int],
    seams: Sequence[int],
    context: Context,
) -> Any:
    """Return a processor's state at the seam.

    A constraint restarts: all tokens before the seam are its prompt. A penalty sees the whole history, with the original prompt
    as prompt and all generated tokens as output. A processor that declares no role restarts.

    Args:
        processor: The processor, or a chain of several.
        rows: The tokens of each row.
        prompt_lengths: The number of prompt tokens in each row.
        seams: The number of tokens before the seam in each row; tokens after it count as output.
        context: The context of the current rows.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> context = Context.of([[0, 1, 1]], vocabulary_size=2)
        >>> penalty = lk.FrequencyPenalty(1.0)
        >>> state = state_at_seam(penalty, [[0, 1, 1]], [1], [3], context)
        >>> penalty.process_logits(state, torch.zeros(1, 2), context)[1].tolist()
        [[0.0, -2.0]]
    """
    if isinstance(processor, Chain):
        parts = processor.processors
        return tuple(state_at_seam(part, rows, prompt_lengths, seams, context) for part in parts)
    restarts = role_of(processor) in (None, Role.CONSTRAINT)
    begins = seams if restarts else prompt_lengths
    prompts = [row[:begin] for row, begin in zip(rows, begins, strict=True)]
    written = [row[begin:] for row, begin in zip(rows, begins, strict=True)]
    start = Context.of(prompts, context.vocabulary_size, context.device, context.max_length)
    start = replace(start, max_lengths=context.max_lengths)
    state = init_checked(processor, start)
    if not any(written):
        return state
    return advance_checked(processor, state, padded(written).to(context.device))
