"""Why a row ended: EOS, a complete constraint, a stop, constraints in conflict, or the token limit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from logitkit.composition.chain import members
from logitkit.composition.conflicts import conflicts
from logitkit.protocol.calls import advance_checked, init_checked, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, Role, role_of

__all__ = ["end_of_row"]


def end_of_row(
    processor: Processor[Any] | None, prompt: list[int], new: list[int], limit: int, ends: Collection[int], columns: int
) -> str:
    """Return why a row ended, as in `GeneratedRow.finished`.

    Args:
        processor: The processor, or None. Its constraints may end a row.
        prompt: The tokens of the prompt.
        new: The new tokens, including a final EOS.
        limit: The maximum number of new tokens.
        ends: The ids that end a row.
        columns: The number of columns of the logits; 0 if it is unknown.
    """
    ended = not new or new[-1] in ends
    own = "eos" if ended else "length"
    parts = [] if processor is None or not new else [p for p in members(processor) if role_of(p) is Role.CONSTRAINT]
    if not parts:
        return own
    text = torch.tensor([new[: len(new) - ended]], dtype=torch.int64)
    columns = max([columns, *(part.vocabulary.size for part in parts if hasattr(part, "vocabulary"))])
    start = Context.of([prompt], columns, max_length=len(prompt) + limit)
    states = [advance_checked(part, init_checked(part, start), text) for part in parts]
    for part, state in zip(parts, states, strict=True):
        if hasattr(part, "fired") and bool(part.fired(state)):
            return f"stop: {_shown(part, state)}"
    left, context = torch.zeros(1, columns), start.at(start.lengths + text.shape[1])
    for part, state in zip(parts, states, strict=True):
        left = process_checked(part, state, left, context)
    legal = left[0] > -torch.inf
    is_left = bool(legal.any())
    legal[[i for i in ends if i < columns]] = False
    if bool(legal.any()):
        return own
    if len(parts) == 1 and is_left and not (hasattr(parts[0], "is_dead") and bool(parts[0].is_dead(states[0]))):
        return "closed"
    # A constraint ends a row in which those before it leave no token, so an EOS that is left says nothing.
    return "conflict" if bool(conflicts(parts, states, sorted(ends), columns)) else "closed"


def _shown(stops: Any, state: Any) -> str:
    """Return the stop that ended a row, as text."""
    (which,) = stops.which(state).tolist()
    stop = stops.stops[which]
    return stop.decode("utf-8", "replace") if isinstance(stop, bytes) else str(stop)
