"""Requests that enter a batch, for the first time or again."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from logitkit.batching.gathered import Gathered
from logitkit.batching.step_states import Step, StepStates
from logitkit.batching.steps import OwnStep, StepKey
from logitkit.errors import ConfigurationError, ProcessorError
from logitkit.protocol.calls import init_checked
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Processor, name_of
from logitkit.protocol.state import to
from logitkit.tokens.allow import AllowTokens

__all__ = ["Entering", "NewRequest"]

_logger = logging.getLogger(__name__)


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
        limit: Most tokens that the request may have, prompt included, for the context of registered processors. None: not known.
    """

    processor: Processor[Any]
    prompt: Sequence[int]
    output: Sequence[int] = ()
    stream: int = 0
    max_length: int | None = None
    limit: int | None = None


class Entering:
    """The states of new requests, those with the same processor together.

    They are made on the host, whatever the device: there thousands of tokens are replayed in milliseconds.

    Args:
        rows: New requests, among whatever else.
        taken: The steps of each row.
        device: Where their states go.
        eos_ids: Ids that end a row whose processor breaks the protocol; without any, such an error is raised.
        columns: How many columns the logits have, which registered processors need to know; None: not known.

    `taken` are the steps that each row takes then: those given, or the one that ends it.
    """

    def __init__(
        self,
        rows: Sequence[object],
        taken: Sequence[Mapping[StepKey, Processor[Any]]],
        device: torch.device,
        eos_ids: Sequence[int] = (),
        columns: int | None = None,
    ) -> None:
        self._device = device
        self._eos_ids, self._columns = tuple(eos_ids), columns
        self.taken = list(taken)
        self._groups: list[tuple[list[int], StepStates]] = []
        alike: dict[int, list[tuple[int, NewRequest]]] = {}
        for number, row in enumerate(rows):
            if isinstance(row, NewRequest):
                alike.setdefault(id(row.processor), []).append((number, row))
        for members in alike.values():
            self._enter(members, taken[members[0][0]])

    def _enter(self, members: list[tuple[int, NewRequest]], steps: Mapping[StepKey, Processor[Any]]) -> None:
        """Begin requests with the same steps together; where that fails, each by itself, and one that fails alone is ended."""
        numbers, requests = [number for number, _ in members], [request for _, request in members]
        try:
            begun = _begun(steps, requests, self._eos_ids, self._columns)
        except Exception as error:
            own = any(isinstance(step, OwnStep) for step in steps)
            if not self._eos_ids or not (own or isinstance(error, ProcessorError)):
                raise
            if own and len(members) > 1:
                for member in members:
                    self._enter([member], steps)
                return
            _logger.exception("a processor breaks the protocol; the rows that ask for it are ended")
            ends: Mapping[StepKey, Processor[Any]] = {AllowTokens: AllowTokens(self._eos_ids)}
            begun = _begun(ends, requests)
            for number in numbers:
                self.taken[number] = ends
        self._groups.append((numbers, begun))

    def states(self, kind: type) -> list[tuple[list[int], Any]]:
        """Return the numbers of rows that take a step, and their states."""
        found = [(numbers, group.steps.get(kind)) for numbers, group in self._groups]
        return [(numbers, to(step.state, self._device)) for numbers, step in found if step is not None]

    def gathered(self, step: OwnStep) -> list[Gathered]:
        """Return the rows that take a step of registered processors."""
        found = [(numbers, group.own.get(step)) for numbers, group in self._groups]
        device = torch.device("cpu") if step.kind.reads_host else self._device
        return [part.to(device)._replace(rows=tuple(numbers)) for numbers, part in found if part is not None]


def _begun(
    steps: Mapping[StepKey, Processor[Any]],
    requests: Sequence[NewRequest],
    eos_ids: tuple[int, ...] = (),
    columns: int | None = None,
) -> StepStates:
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
        {
            kind: Step(runs, init_checked(runs, context), takes)
            for kind, runs in steps.items()
            if isinstance(kind, type)
        },
        own={
            step: _gathered(runs, requests, context, eos_ids, columns)
            for step, runs in steps.items()
            if isinstance(step, OwnStep)
        },
    )
    longest = max(len(request.output) for request in requests)
    if not longest:
        return states
    said = [[*request.output, *[-1] * (longest - len(request.output))] for request in requests]
    return states.advance(torch.tensor(said, dtype=torch.int64))


def _gathered(
    runs: Processor[Any],
    requests: Sequence[NewRequest],
    context: Context,
    eos_ids: tuple[int, ...],
    columns: int | None,
) -> Gathered:
    """Return the rows of a registered processor, which sees the true context."""
    if columns is None:
        raise ConfigurationError(
            f"the number of columns of the logits, which {name_of(runs)} may need, is not known; give BatchedRequests columns=..."
        )
    limits = [request.limit for request in requests if request.limit is not None]
    known = len(limits) == len(requests)
    true = replace(
        context,
        vocabulary_size=columns,
        max_length=max(limits) if known else None,
        max_lengths=torch.tensor(limits, dtype=torch.int64) if known else None,
    )
    rows = range(len(requests))
    return Gathered(
        runs, init_checked(runs, true), true, tuple(rows), torch.tensor(rows), (False,) * len(rows), eos_ids
    )
