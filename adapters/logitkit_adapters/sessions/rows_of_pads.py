"""Rows that contain only padding: they have ended before they began, so the other rows are generated without them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from logitkit.sessions.sequence_parts import RowPiece, Weights, put_together, weights_of
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.sessions.written_rows import Steps

__all__ = ["prompts_with_tokens", "write_others"]


def prompts_with_tokens(state: SequenceState) -> list[int]:
    """Return the prompts that `write_others` generates for."""
    samples = state.num_samples
    return [b for b in range(state.batch_size) if any(state.rows[b * samples : (b + 1) * samples])]


def write_others(state: SequenceState, repeats: int, write: Callable[[SequenceState], Steps]) -> Steps:
    """Generate for all prompts that have tokens, and then reinsert the empty ones as finished.

    Args:
        state: A state of B prompts x S samples.
        repeats: The number of rows that each row becomes.
        write: Generates for a state of some of the prompts, whose rows its steps count.
    """
    going = prompts_with_tokens(state)
    if len(going) == state.batch_size:
        return (yield from write(state))
    if not going:
        ended = replace(state, finished=torch.ones_like(state.finished))
        return ended if repeats == 1 else ended.fan_out(repeats)
    written = yield from write(_prompts(state, [*going], to_feed=1))
    places = [going.index(b) if b in going else None for b in range(state.batch_size)]
    return _prompts(written, places)


def _prompts(state: SequenceState, places: list[int | None], to_feed: int = 0) -> SequenceState:
    """Return a state with the given prompts; None stands for a prompt without tokens, which has ended."""
    samples = state.num_samples
    pieces = [
        RowPiece(0, 0) if place is None else RowPiece(place * samples + s, len(state.rows[place * samples + s]))
        for place in places
        for s in range(samples)
    ]
    there = torch.tensor([place is not None for place in places], device=state.weights.device)
    taken = torch.tensor([place or 0 for place in places], device=state.weights.device)
    weights = Weights(*(torch.where(there[:, None], w[taken], 0.0) for w in weights_of(state)))
    found = put_together(state, pieces, weights, to_feed)
    return replace(found, finished=found.finished | ~there.repeat_interleave(samples))
