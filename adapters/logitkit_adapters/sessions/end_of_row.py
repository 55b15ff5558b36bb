"""Why a row ended: EOS, a complete constraint, a stop, constraints in conflict, or the token limit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from logitkit.composition.chain import Chain, members
from logitkit.composition.conflicts import conflicts
from logitkit.protocol.calls import advance_checked, init_checked, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, Role, role_of

__all__ = ["end_after", "end_of_row", "is_constrained"]


def is_constrained(processor: Processor[Any] | None) -> bool:
    """Return whether a processor has a constraint, which may end a row."""
    return processor is not None and any(role_of(part) is Role.CONSTRAINT for part in members(processor))


def end_of_row(processor: Processor[Any], state: Any, context: Context, ended: bool, ends: Collection[int]) -> str:
    """Return why a row ended, as in `GeneratedRow.finished`.

    Args:
        processor: A processor that `is_constrained`.
        state: Its state, of one row, before a final EOS.
        context: The context of the row at that length.
        ended: Whether the row ended with EOS.
        ends: The ids that end the row.
    """
    states = state if isinstance(processor, Chain) else (state,)
    links = [(p, s) for p, s in zip(members(processor), states, strict=True) if role_of(p) is Role.CONSTRAINT]
    for part, own in links:
        if hasattr(part, "fired") and bool(part.fired(own)):
            return f"stop: {_shown(part, own)}"
    columns = context.vocabulary_size
    left = torch.zeros(1, columns, device=context.device)
    for part, own in links:
        left = process_checked(part, own, left, context)
    legal = left[0] > -torch.inf
    is_left = bool(legal.any())
    legal[[i for i in ends if i < columns]] = False
    if bool(legal.any()):
        return "eos" if ended else "length"
    if len(links) == 1 and is_left and not any(hasattr(p, "is_dead") and bool(p.is_dead(own)) for p, own in links):
        return "closed"
    # A constraint ends a row in which those before it leave no token, so an EOS that is left says nothing.
    parts, owned = zip(*links, strict=True)
    return "conflict" if bool(conflicts(parts, owned, sorted(ends), columns)) else "closed"


def end_after(
    processor: Processor[Any] | None, prompt: list[int], new: list[int], limit: int, ends: Collection[int], columns: int
) -> str:
    """Return why a row ended, from its tokens alone.

    Args:
        processor: The processor, or None.
        prompt: The tokens of the prompt.
        new: The new tokens, including a final EOS.
        limit: The maximum number of new tokens.
        ends: The ids that end a row.
        columns: The number of columns of the logits; 0 if it is unknown.
    """
    ended = not new or new[-1] in ends
    if processor is None or not new or not is_constrained(processor):
        return "eos" if ended else "length"
    text = new[: len(new) - ended]
    columns = max([columns, *(p.vocabulary.size for p in members(processor) if hasattr(p, "vocabulary"))])
    start = Context.of([prompt], columns, max_length=len(prompt) + limit)
    state = advance_checked(processor, init_checked(processor, start), torch.tensor([text], dtype=torch.int64))
    return end_of_row(processor, state, start.at(start.lengths + len(text)), ended, ends)


def _shown(stops: Any, state: Any) -> str:
    """Return the stop that ended a row, as text."""
    (which,) = stops.which(state).tolist()
    stop = stops.stops[which]
    return stop.decode("utf-8", "replace") if isinstance(stop, bytes) else str(stop)
