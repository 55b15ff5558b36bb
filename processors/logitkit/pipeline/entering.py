"""Requests that enter a batch, for the first time or again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from logitkit.context import Context
from logitkit.pipeline.step_states import Step, StepStates
from logitkit.processor import Processor
from logitkit.state import to

__all__ = ["Entering", "NewRequest"]


@dataclass(frozen=True, slots=True, eq=False)
class NewRequest:
    """A request that enters a batch.

    Args:
        processor: What it asks for.
        prompt: Token ids of the prompt.
        output: Token ids that it has generated already.
        stream: Which stream of random numbers it draws from.
        max_length: Most tokens that it will ever have, prompt included. On a device a state without it asks for its own length
            whenever it takes a token.
    """

    processor: Processor[Any]
    prompt: Sequence[int]
    output: Sequence[int] = ()
    stream: int = 0
    max_length: int | None = None


class Entering:
    """The states of new requests, those with the same processor together.

    They are made on the host, whatever the device: there thousands of tokens are replayed in milliseconds.

    Args:
        rows: New requests, among whatever else.
        taken: The steps of each.
        device: Where their states go.
    """

    def __init__(
        self, rows: Sequence[object], taken: Sequence[Mapping[type, Processor[Any]]], device: torch.device
    ) -> None:
        self._device = device
        self._groups: list[tuple[list[int], StepStates]] = []
        alike: dict[int, list[tuple[int, NewRequest]]] = {}
        for number, row in enumerate(rows):
            if isinstance(row, NewRequest):
                alike.setdefault(id(row.processor), []).append((number, row))
        for members in alike.values():
            numbers = [number for number, _ in members]
            self._groups.append((numbers, _begun(taken[numbers[0]], [request for _, request in members])))

    def states(self, kind: type) -> list[tuple[list[int], Any]]:
        """Return the numbers of rows that take a step, and their states."""
        found = [(numbers, group.steps.get(kind)) for numbers, group in self._groups]
        return [(numbers, to(step.state, self._device)) for numbers, step in found if step is not None]


def _begun(steps: Mapping[type, Processor[Any]], requests: Sequence[NewRequest]) -> StepStates:
    """Return the states of requests that take the same steps, on the host."""
    limits = [request.max_length for request in requests]
    known = [limit for limit in limits if limit is not None]
    context = replace(
        Context.of(
            [request.prompt for request in requests], 0, max_length=max(known) if len(known) == len(limits) else None
        ),
        stream_ids=torch.tensor([request.stream for request in requests], dtype=torch.int64),
    )
    takes = torch.ones(len(requests), dtype=torch.bool)
    states = StepStates(
        len(requests),
        context.device,
        {kind: Step(runs, runs.init_state(context), takes) for kind, runs in steps.items()},
    )
    longest = max(len(request.output) for request in requests)
    if not longest:
        return states
    said = [[*request.output, *[-1] * (longest - len(request.output))] for request in requests]
    return states.advance(torch.tensor(said, dtype=torch.int64))
