"""The requests that an engine has in a batch, each with a configuration of its own or with none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from logitkit.batching.entering import Entering, NewRequest
from logitkit.batching.gathered import Gathered, joined
from logitkit.batching.step_states import Step, StepStates
from logitkit.batching.steps import ORDER, OwnStep, StepKey, steps_of
from logitkit.errors import BatchMismatch
from logitkit.protocol.calls import own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.declared import neutral_state
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import concatenate, select
from logitkit.runtime.bank_user import BankUser

__all__ = ["BatchedRequests"]


class BatchedRequests:
    """The rows of an engine's batch: one state, and one call a step, for each step of the canonical order that any row takes.

    A row that lacks a step has its neutral state there, which leaves the logits bit for bit as they are. A batch in which
    nothing is asked for costs nothing.

    Args:
        device: Where the logits are.
        eos_ids: Ids that end a row whose processor breaks the protocol; without any, such an error is raised.
        columns: How many columns the logits have. Registered processors need it.

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

    def __init__(self, device: torch.device | str, eos_ids: Iterable[int] = (), columns: int | None = None) -> None:
        self._device = torch.device(device)
        self._columns = columns
        # What each row asks for; as long as a row is there, its automata stay in their banks.
        self._rows: list[Mapping[StepKey, Processor[Any]]] = []
        self.states = StepStates(0, self._device, {}, tuple(eos_ids))

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def asks(self) -> bool:
        """Whether any row asks for anything."""
        return bool(self.states.steps or self.states.own)

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
        entering = Entering(rows, taken, self._device, self.states.eos_ids, self._columns)
        taken = entering.taken
        wanted = {kind for steps in taken for kind in steps}
        steps = {kind: self._arranged(kind, rows, taken, entering) for kind in ORDER if kind in wanted}
        kept = {kind for row in rows if isinstance(row, int) for kind in self._rows[row]}
        own = {step: self._gathered(step, rows, taken, entering) for step in wanted if isinstance(step, OwnStep)}
        self.states = replace(self.states, rows=len(rows), steps=steps, broken=self.states.broken & kept, own=own)
        self._rows = taken

    def kinds(self, rows: Iterable[int]) -> set[StepKey]:
        """Return the steps that any of some rows takes."""
        return {kind for row in rows for kind in self._rows[row]}

    def prepare(self) -> None:
        """Bring the tables of automata to the device, so that no later call has to."""
        if self._device.type != "cpu":
            for runs, _, _ in self.states.steps.values():
                if isinstance(runs, BankUser):
                    runs.bank.tables_on(self._device)

    def _steps_of(self, row: int | NewRequest | None) -> Mapping[StepKey, Processor[Any]]:
        if row is None:
            return {}
        return steps_of(row.processor) if isinstance(row, NewRequest) else self._rows[row]

    def _arranged(
        self,
        kind: type,
        rows: Sequence[int | NewRequest | None],
        taken: Sequence[Mapping[StepKey, Processor[Any]]],
        entering: Entering,
    ) -> Step:
        takes = [kind in steps for steps in taken]
        parts, order = [], [0] * len(rows)
        count = 0
        kept = [(row, was) for row, was in enumerate(rows) if isinstance(was, int) and takes[row]]
        if kept:
            parts.append(select(self.states.steps[kind].state, self._index([was for _, was in kept])))
            for count, (row, _) in enumerate(kept, 1):
                order[row] = count - 1
        for numbers, state in entering.states(kind):
            parts.append(state)
            for row in numbers:
                order[row] = count
                count += 1
        lacking = [row for row, there in enumerate(takes) if not there]
        if lacking:
            parts.append(neutral_state(kind, Context.of([[]] * len(lacking), 0, self._device)))
            for row in lacking:
                order[row] = count
                count += 1
        state = concatenate(parts) if len(parts) > 1 else parts[0]
        if order != list(range(len(order))):
            state = select(state, self._index(order))
        runs = next(steps[kind] for steps in taken if kind in steps)
        return Step(runs, state, torch.tensor(takes, device=self._device))

    def _gathered(
        self,
        step: OwnStep,
        rows: Sequence[int | NewRequest | None],
        taken: Sequence[Mapping[StepKey, Processor[Any]]],
        entering: Entering,
    ) -> Gathered:
        parts = entering.gathered(step)
        old = self.states.own.get(step)
        kept = [(row, was) for row, was in enumerate(rows) if isinstance(was, int) and step in taken[row]]
        if old is not None and kept:
            places = {row: place for place, row in enumerate(old.rows)}
            parts.append(old.select([places[was] for _, was in kept], [row for row, _ in kept], old.at[:0]))
        found = joined(parts)
        return found._replace(at=self._index(found.rows))

    def _index(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.int64, device=self._device)

    def advance(self, tokens: Tensor) -> None:
        """Take note of committed tokens.

        Args:
            tokens: [B] or [B, T] int64 on the device, -1 = none.
        """
        self.states = self.states.advance(tokens)

    def process_logits(self, logits: Tensor) -> Tensor:
        """Process the logits of all rows.

        Args:
            logits: [B, V] floating point; they may be overwritten.

        Returns:
            [B, V].

        Raises:
            BatchMismatch: There are not as many rows of logits.
        """
        if not self.asks:
            return logits
        if len(logits) != len(self._rows):
            raise BatchMismatch(
                f"there are {len(logits)} rows of logits for {len(self._rows)} requests; they must agree"
            )
        logits = own_rows("BatchedRequests", len(self._rows), logits)
        return self.states.process_logits(logits)
