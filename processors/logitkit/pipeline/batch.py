"""The requests that an engine has in a batch, each with a configuration of its own or with none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.errors import BatchMismatch
from logitkit.pipeline.neutral import neutral_state
from logitkit.pipeline.steps import ORDER, steps_of
from logitkit.processor import Processor, own_rows
from logitkit.state import concatenate, select

__all__ = ["BatchedRequests", "NewRequest"]


@dataclass(frozen=True, slots=True, eq=False)
class NewRequest:
    """A request that enters a batch, for the first time or again.

    Args:
        processor: What it asks for.
        prompt: Token ids of the prompt.
        output: Token ids that it has generated already.
        stream: Which stream of random numbers it draws from.
    """

    processor: Processor[Any]
    prompt: Sequence[int]
    output: Sequence[int] = ()
    stream: int = 0


class _Step(NamedTuple):
    """One step for all rows.

    Args:
        runs: The processor of any row: what differs between them is in the state.
        state: Of all rows.
        takes: [B] bool, the rows that have it.
    """

    runs: Processor[Any]
    state: Any
    takes: Tensor


class BatchedRequests:
    """The rows of an engine's batch: one state, and one call a step, for each step of the canonical order that any row takes.

    A row that lacks a step has its neutral state there, which leaves the logits bit for bit as they are. A batch in which
    nothing is asked for costs nothing.

    Args:
        device: Where the logits are.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> batch = BatchedRequests("cpu")
        >>> penalty = lk.RepetitionPenalty(2.0)
        >>> batch.arrange([NewRequest(penalty, prompt=[0]), None])
        >>> batch.process_logits(torch.ones(2, 3))
        tensor([[0.5000, 1.0000, 1.0000],
                [1.0000, 1.0000, 1.0000]])
        >>> batch.arrange([1, 0, NewRequest(lk.BanTokens([2]), prompt=[])])
        >>> batch.advance(torch.tensor([1, 1, 1]))
        >>> batch.process_logits(torch.ones(3, 3))
        tensor([[1.0000, 1.0000, 1.0000],
                [0.5000, 0.5000, 1.0000],
                [1.0000, 1.0000,   -inf]])
    """

    def __init__(self, device: torch.device | str) -> None:
        self._device = torch.device(device)
        # What each row asks for; as long as a row is there, its automata stay in their banks.
        self._rows: list[Mapping[type, Processor[Any]]] = []
        self._steps: dict[type, _Step] = {}

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def asks(self) -> bool:
        """Whether any row asks for anything."""
        return bool(self._steps)

    def arrange(self, rows: Sequence[int | NewRequest | None]) -> None:
        """Take other rows: removed, added and moved ones at once.

        Args:
            rows: For each row from now on the row that it was, a new request, or None for a row that asks for nothing.

        Raises:
            ConfigurationError: The processor of a new request is not of the canonical order; then nothing is changed.
        """
        before = list(range(len(self._rows)))
        if list(rows) == before:
            return
        taken = [self._steps_of(row) for row in rows]
        fresh = _Fresh(rows, taken, self._device)
        wanted = {step for steps in taken for step in steps}
        self._steps = {step: self._arranged(step, rows, taken, fresh) for step in ORDER if step in wanted}
        self._rows = taken

    def fork(self, rows: Sequence[int | None]) -> BatchedRequests:
        """Return another batch, of some of these rows, in any order and any number; this one stays as it is.

        Args:
            rows: For each row there the row here, or None for a row that asks for nothing.
        """
        other = BatchedRequests(self._device)
        other._rows, other._steps = self._rows, dict(self._steps)
        other.arrange(rows)
        return other

    def _steps_of(self, row: int | NewRequest | None) -> Mapping[type, Processor[Any]]:
        if row is None:
            return {}
        return steps_of(row.processor) if isinstance(row, NewRequest) else self._rows[row]

    def _arranged(
        self,
        step: type,
        rows: Sequence[int | NewRequest | None],
        taken: Sequence[Mapping[type, Processor[Any]]],
        fresh: _Fresh,
    ) -> _Step:
        takes = [step in steps for steps in taken]
        parts, order = [], [0] * len(rows)
        count = 0
        kept = [(row, was) for row, was in enumerate(rows) if isinstance(was, int) and takes[row]]
        if kept:
            parts.append(select(self._steps[step].state, self._index([was for _, was in kept])))
            for count, (row, _) in enumerate(kept, 1):
                order[row] = count - 1
        for numbers, state in fresh.states(step):
            parts.append(state)
            for row in numbers:
                order[row] = count
                count += 1
        lacking = [row for row, there in enumerate(takes) if not there]
        if lacking:
            parts.append(neutral_state(step, Context.of([[]] * len(lacking), 0, self._device)))
            for row in lacking:
                order[row] = count
                count += 1
        state = concatenate(parts) if len(parts) > 1 else parts[0]
        if order != list(range(len(order))):
            state = select(state, self._index(order))
        runs = next(steps[step] for steps in taken if step in steps)
        return _Step(runs, state, torch.tensor(takes, device=self._device))

    def _index(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.int64, device=self._device)

    def advance(self, tokens: Tensor) -> None:
        """Take note of committed tokens.

        Args:
            tokens: [B] or [B, T] int64 on the device, -1 = none.
        """
        for step, (runs, state, takes) in self._steps.items():
            # A row that lacks the step has nothing to remember.
            seen = torch.where(takes if tokens.dim() == 1 else takes[:, None], tokens, -1)
            self._steps[step] = _Step(runs, runs.advance(state, seen), takes)

    def process_logits(self, logits: Tensor) -> Tensor:
        """Process the logits of all rows.

        Args:
            logits: [B, V] floating point; they may be overwritten.

        Returns:
            [B, V].

        Raises:
            BatchMismatch: There are not as many rows of logits.
        """
        if not self._steps:
            return logits
        if len(logits) != len(self._rows):
            raise BatchMismatch(
                f"there are {len(logits)} rows of logits for {len(self._rows)} requests; they must agree"
            )
        logits = own_rows("BatchedRequests", len(self._rows), logits)
        # What a processor needs of the prompt is in its state.
        context = Context.of([[]] * len(logits), logits.shape[1], logits.device)
        for step, (runs, state, takes) in self._steps.items():
            after, logits = runs.process_logits(state, logits, context)
            self._steps[step] = _Step(runs, after, takes)
        return logits


class _Fresh:
    """The states of new requests, those with the same processor together."""

    def __init__(
        self,
        rows: Sequence[int | NewRequest | None],
        taken: Sequence[Mapping[type, Processor[Any]]],
        device: torch.device,
    ) -> None:
        self._groups: list[tuple[list[int], Mapping[type, Processor[Any]], Context, Tensor]] = []
        alike: dict[int, list[tuple[int, NewRequest]]] = {}
        for number, row in enumerate(rows):
            if isinstance(row, NewRequest):
                alike.setdefault(id(row.processor), []).append((number, row))
        for members in alike.values():
            requests = [request for _, request in members]
            context = Context.of([request.prompt for request in requests], 0, device)
            streams = torch.tensor([request.stream for request in requests], dtype=torch.int64, device=device)
            longest = max(len(request.output) for request in requests)
            said = [[*request.output, *[-1] * (longest - len(request.output))] for request in requests]
            tokens = torch.tensor(said, dtype=torch.int64, device=device).reshape(len(requests), longest)
            numbers = [number for number, _ in members]
            self._groups.append((numbers, taken[numbers[0]], replace(context, stream_ids=streams), tokens))

    def states(self, step: type) -> list[tuple[list[int], Any]]:
        """Return the numbers of rows that take a step, and their states."""
        found = []
        for numbers, steps, context, tokens in self._groups:
            if step in steps:
                state = steps[step].init_state(context)
                found.append((numbers, steps[step].advance(state, tokens) if tokens.shape[1] else state))
        return found
