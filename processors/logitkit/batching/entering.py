"""Requests that enter a batch, for the first time or after preemption."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch

from logitkit.batching.gathered import Gathered
from logitkit.batching.step_states import SharedStep, StepStates
from logitkit.batching.steps import OwnStep, StepKey, steps_of
from logitkit.errors import ConfigurationError, ProcessorError
from logitkit.protocol.calls import init_checked
from logitkit.protocol.context import Context, largest, padded
from logitkit.protocol.guidance import refuse_guidance
from logitkit.protocol.processor import Processor, name_of
from logitkit.tokens.allow import AllowTokens

__all__ = ["Entered", "NewRequest", "entered"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class NewRequest:
    """A request that enters a batch.

    Args:
        processor: Its processor.
        prompt: The token ids of its prompt.
        output: The token ids that it has generated before it entered.
        stream: Its stream of random numbers.
        max_length: The size of its state, in tokens, prompt included. On a device, a state without it has to read its own length
            whenever it takes a token.
        limit: The maximum number of its tokens, prompt included, for the context of registered processors; None if unknown.

    Raises:
        ConfigurationError: The processor reads the logits of a second pass, which engines with requests do not have.
    """

    processor: Processor[Any]
    prompt: Sequence[int]
    output: Sequence[int] = ()
    stream: int = 0
    max_length: int | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        refuse_guidance(self.processor, "an engine whose requests share a batch")


class Entered(NamedTuple):
    """New requests with the same processor.

    Args:
        numbers: Their rows in the batch.
        taken: The steps that they take.
        states: Their states after their prompts and outputs, on the CPU, where a replay of thousands of tokens takes
            milliseconds.
    """

    numbers: list[int]
    taken: Mapping[StepKey, Processor[Any]]
    states: StepStates


def entered(rows: Sequence[object], eos_ids: tuple[int, ...] = (), columns: int | None = None) -> list[Entered]:
    """Return the states of the new requests among the rows of a batch.

    Args:
        rows: The rows; all that are not a `NewRequest` are left out.
        eos_ids: The ids that end a row whose processor breaks the protocol. Without any, the error is raised.
        columns: The number of columns of the logits, which registered processors need; None if unknown.

    Raises:
        ConfigurationError: The processor of a request is not in the canonical order.
    """
    alike: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        if isinstance(row, NewRequest):
            alike.setdefault(id(row.processor), []).append(number)
    engine = _Engine(eos_ids, columns)
    return [group for numbers in alike.values() for group in _enter(numbers, rows, engine)]


class _Engine(NamedTuple):
    """The arguments of `entered` about the engine."""

    eos_ids: tuple[int, ...]
    columns: int | None


def _enter(numbers: list[int], rows: Sequence[Any], engine: _Engine) -> list[Entered]:
    """Enter requests with the same processor together; if that fails, one by one, and end those that fail alone."""
    requests: list[NewRequest] = [rows[number] for number in numbers]
    taken = steps_of(requests[0].processor)
    try:
        return [Entered(numbers, taken, _states(taken, requests, engine))]
    except Exception as error:
        own = any(isinstance(step, OwnStep) for step in taken)
        if not engine.eos_ids or not (own or isinstance(error, ProcessorError)):
            raise
        if own and len(numbers) > 1:
            return [group for number in numbers for group in _enter([number], rows, engine)]
        _logger.exception("a processor breaks the protocol; the rows that ask for it are ended")
    ends: Mapping[StepKey, Processor[Any]] = {AllowTokens: AllowTokens(engine.eos_ids)}
    return [Entered(numbers, ends, _states(ends, requests, engine))]


def _states(taken: Mapping[StepKey, Processor[Any]], requests: Sequence[NewRequest], engine: _Engine) -> StepStates:
    """Return the states of requests that take the same steps."""
    context = replace(
        Context.of([request.prompt for request in requests], 0),
        max_length=largest([request.max_length for request in requests]),
        stream_ids=torch.tensor([request.stream for request in requests], dtype=torch.int64),
    )
    takes = torch.ones(len(requests), dtype=torch.bool)
    steps: dict[StepKey, SharedStep | Gathered] = {
        key: _gathered(runs, requests, context, engine)
        if isinstance(key, OwnStep)
        else SharedStep(runs, init_checked(runs, context), takes)
        for key, runs in taken.items()
    }
    states = StepStates(len(requests), context.device, steps)
    outputs = padded([request.output for request in requests])
    return states.advance(outputs) if outputs.shape[1] else states


def _gathered(runs: Processor[Any], requests: Sequence[NewRequest], context: Context, engine: _Engine) -> Gathered:
    """Return the rows of a registered processor, with the context that they would have alone."""
    if engine.columns is None:
        raise ConfigurationError(
            f"the number of columns of the logits is unknown, and {name_of(runs)} may need it; pass BatchedRequests columns=..."
        )
    limits = [request.limit for request in requests]
    context = replace(
        context,
        vocabulary_size=engine.columns,
        max_length=largest(limits),
        max_lengths=None if None in limits else torch.tensor(limits, dtype=torch.int64),
    )
    rows = tuple(range(len(requests)))
    failed = (False,) * len(rows)
    return Gathered(runs, init_checked(runs, context), context, rows, torch.tensor(rows), failed, engine.eos_ids)
