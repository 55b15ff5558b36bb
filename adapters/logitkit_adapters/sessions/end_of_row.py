"""Why a row ended: EOS, a complete constraint, a stop, a loop, processors in conflict, or the token limit."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch

from logitkit.composition.chain import members
from logitkit.composition.conflicts import fired_rows, legal_tokens, refused_ends
from logitkit.protocol.calls import advance_checked, init_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, Role, role_of
from logitkit.reasoning.loop_stop import LoopStop

__all__ = ["end_of_row"]


def end_of_row(
    processor: Processor[Any] | None,
    prompt: list[int],
    new: list[int],
    limit: int,
    ends: Collection[int],
    columns: int,
    *,
    emptied: bool = False,
) -> str:
    """Return why a row ended, as in `GeneratedRow.finished`.

    A row that ended with EOS may have been ended because no token was left, whichever processor banned the last one. So an end
    that any constraint does not allow is a conflict, unless a stop or a loop ended the row.

    Args:
        processor: The processor, or None. Its constraints may end a row.
        prompt: The tokens of the prompt.
        new: The new tokens, including a final EOS.
        limit: The maximum number of new tokens.
        ends: The ids that end a row.
        columns: The number of columns of the logits; 0 if it is unknown.
        emptied: Whether it is known that no token was left, so that the model did not choose the end.
    """
    ended = not new or new[-1] in ends
    own = ("conflict" if emptied else "eos") if ended else "length"
    parts = [] if processor is None or not new else members(processor)
    parts = [part for part in parts if role_of(part) is Role.CONSTRAINT or hasattr(part, "fired")]
    if not parts:
        return own
    sizes = [vocabulary.size for part in parts if (vocabulary := getattr(part, "vocabulary", None)) is not None]
    start = Context.of([prompt], max([columns, max(new) + 1, *sizes]), max_length=len(prompt) + limit)
    text = torch.tensor([new[: len(new) - ended]], dtype=torch.int64)
    states = [(part, advance_checked(part, init_checked(part, start), text)) for part in parts]
    stops = [pair for pair in states if hasattr(pair[0], "fired")]
    fired = [pair for pair, has in zip(stops, fired_rows(stops), strict=True) if bool(has)]
    # A stop that the last token of a loop completes is what the text ends with.
    for stop, state in sorted(fired, key=lambda pair: isinstance(pair[0], LoopStop)):
        return "loop" if isinstance(stop, LoopStop) else f"stop: {_shown(stop, state)}"
    constraints = [pair for pair in states if role_of(pair[0]) is Role.CONSTRAINT]
    context = start.at(start.lengths + text.shape[1])
    known = [i for i in ends if i < context.vocabulary_size]
    refused = bool(refused_ends(constraints, context, new[-1:] if ended else known))
    if ended and refused:
        return "conflict"
    legal, _ = legal_tokens(constraints, context, known)
    legal[:, known] = False
    if bool(legal.any()):
        return own
    return "conflict" if refused else "closed"


def _shown(stops: Any, state: Any) -> str:
    """Return the stop that ended a row, as text."""
    (which,) = stops.which(state).tolist()
    stop = stops.stops[which]
    return stop.decode("utf-8", "replace") if isinstance(stop, bytes) else str(stop)
