"""Requests that enter a bank of states: their processors, states and contexts after their prompts and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from logitkit.batching.entering import NewRequest
from logitkit.batching.row_processors import RowProcessors
from logitkit.batching.row_steps import StepRows
from logitkit.errors import ConfigurationError
from logitkit.protocol.calls import count_tokens
from logitkit.protocol.context import Context, concatenate_context, largest, padded
from logitkit.protocol.processor import name_of
from logitkit.protocol.state import walk

__all__ = ["Entries", "begun", "check_captured", "context_of"]

# A replay of thousands of tokens takes milliseconds there.
CPU = torch.device("cpu")


class Entries(NamedTuple):
    """Requests that enter a bank.

    Args:
        rows: The row of each in the bank.
        runs: Their processors.
        state: Their state, on the CPU.
        context: Their context, on the CPU.
    """

    rows: list[int]
    runs: RowProcessors
    state: tuple[StepRows, ...]
    context: Context


def begun(requests: Mapping[int, NewRequest], columns: int) -> Entries:
    """Return requests after their prompts and outputs.

    Args:
        requests: By row of the bank.
        columns: The number of columns of the logits.
    """
    # A context has a maximum length for each row or for none, so requests without one begin apart from the others.
    limited = [row for row, request in requests.items() if request.limit is not None]
    others = [row for row, request in requests.items() if request.limit is None]
    first, *rest = (_alike(rows, requests, columns) for rows in (limited, others) if rows)
    for more in rest:
        runs, state = first.runs.joined(first.state, more.runs, more.state, CPU)
        first = Entries([*first.rows, *more.rows], runs, state, concatenate_context([first.context, more.context]))
    return first


def _alike(rows: list[int], requests: Mapping[int, NewRequest], columns: int) -> Entries:
    given = [requests[row] for row in rows]
    runs = RowProcessors(tuple(request.processor for request in given))
    context = context_of(given, columns, CPU)
    state = runs.init_state(context)
    outputs = padded([request.output for request in given])
    if outputs.shape[1]:
        state = runs.advance(state, outputs)
        context = context.at(context.lengths + count_tokens(outputs))
    return Entries(rows, runs, state, context)


def context_of(requests: list[NewRequest], columns: int, device: torch.device) -> Context:
    """Return the context of new requests, all with a maximum length or all without one."""
    limits = [request.limit for request in requests]
    context = Context.of([request.prompt for request in requests], columns, device, largest(limits))
    known = None if None in limits else torch.tensor(limits, dtype=torch.int64, device=device)
    streams = torch.tensor([request.stream for request in requests], dtype=torch.int64, device=device)
    return replace(context, stream_ids=streams, max_lengths=known)


def check_captured(state: Any, requests: list[NewRequest]) -> None:
    """Refuse requests whose steps a graph cannot run."""
    for request in requests:
        if request.processor is not None and request.limit is None:
            raise ConfigurationError(
                f"a request with {name_of(request.processor)} has no maximum length, so its state may grow, which a CUDA graph "
                "cannot follow; give max_new_tokens"
            )
    if any(getattr(part, "runs_on_host", False) for _, part in walk(state)):
        raise ConfigurationError(
            "a constraint remembers the items of arrays ('uniqueItems') or names of objects on the host, or a KgwWatermark "
            "permutes the vocabulary there, which a CUDA graph cannot do; turn graphs off, with "
            "ContinuousBatchingConfig(use_cuda_graph=False), or leave the keyword or the scheme out"
        )
