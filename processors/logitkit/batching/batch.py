"""The requests in an engine's batch, each with its own configuration or with none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from logitkit.batching.entering import Entered, NewRequest, entered
from logitkit.batching.gathered import Gathered, joined
from logitkit.batching.step_states import SharedStep, StepStates
from logitkit.batching.steps import LaterLanguage, OwnStep, StepKey, class_of, rank
from logitkit.errors import BatchMismatch
from logitkit.protocol.calls import own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.declared import neutral_state
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import concatenate, select, to
from logitkit.runtime.registry_user import RegistryUser

__all__ = ["BatchedRequests"]

# The steps that each row takes, with a processor for each.
Taken = Sequence[Mapping[StepKey, Processor[Any]]]


class BatchedRequests:
    """The rows of an engine's batch, with one state and one call for each step of the canonical order that any row takes.

    A row that lacks a step of a shipped processor has the neutral state there, which leaves its logits bit for bit as they are. A
    batch without configurations costs nothing.

    Args:
        device: The device of the logits.
        eos_ids: The ids that end a row whose processor breaks the protocol. Without any, the error is raised.
        columns: The number of columns of the logits. Only registered processors need it.

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
        # A row's processors keep its automata in their registries.
        self._rows: Taken = []
        self.states = StepStates(0, self._device, {}, tuple(eos_ids))
        # Which rows of the last logits were broken, [B] bool on the device; None on the host if there were none.
        self.broken: Tensor | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def arrange(self, rows: Sequence[int | NewRequest | None]) -> None:
        """Remove, add and move rows, all at once.

        Args:
            rows: For each new row, the index of a present row, a new request, or None for a row without a configuration.

        Raises:
            ConfigurationError: The processor of a new request is not in the canonical order. The batch is then unchanged.
        """
        if list(rows) == list(range(len(self._rows))):
            return
        groups = entered(rows, self.states.eos_ids, self._columns)
        taken = [self._rows[row] if isinstance(row, int) else {} for row in rows]
        for group in groups:
            for number in group.numbers:
                taken[number] = group.taken
        steps: dict[StepKey, SharedStep | Gathered] = {}
        for key in sorted({key for of_row in taken for key in of_row}, key=rank):
            kept = {row: was for row, was in enumerate(rows) if isinstance(was, int) and key in taken[row]}
            new = [group for group in groups if key in group.taken]
            steps[key] = (
                self._gathered(key, kept, new) if isinstance(key, OwnStep) else self._shared(key, kept, new, taken)
            )
        self.states = replace(self.states, rows=len(rows), steps=steps)
        self._rows = taken

    def _shared(
        self, key: type | LaterLanguage, kept: Mapping[int, int], new: Sequence[Entered], taken: Taken
    ) -> SharedStep:
        """Return the step of all rows for a kind of shipped processors."""
        old = self.states.steps.get(key)
        rows, parts = list(kept), []
        if isinstance(old, SharedStep) and kept:
            parts.append(select(old.state, self._index(kept.values())))
        for group in new:
            rows += group.numbers
            parts.append(to(group.states.steps[key].state, self._device))
        lacking = [row for row, steps in enumerate(taken) if key not in steps]
        if lacking:
            rows += lacking
            parts.append(neutral_state(class_of(key), Context.of([[]] * len(lacking), 0, self._device)))
        state = concatenate(parts) if len(parts) > 1 else parts[0]
        order = sorted(range(len(rows)), key=rows.__getitem__)
        if order != list(range(len(rows))):
            state = select(state, self._index(order))
        runs = next(steps[key] for steps in taken if key in steps)
        takes = torch.tensor([key in steps for steps in taken], device=self._device)
        return SharedStep(runs, state, takes, isinstance(old, SharedStep) and old.broken and bool(kept))

    def _gathered(self, key: OwnStep, kept: Mapping[int, int], new: Sequence[Entered]) -> Gathered:
        """Return the rows that a registered processor serves."""
        device = torch.device("cpu") if key.kind.reads_host else self._device
        parts = []
        for group in new:
            step = group.states.steps[key]
            assert isinstance(step, Gathered)
            parts.append(step.to(device)._replace(rows=tuple(group.numbers)))
        old = self.states.steps.get(key)
        if isinstance(old, Gathered) and kept:
            places = {row: place for place, row in enumerate(old.rows)}
            parts.append(old.select([places[was] for was in kept.values()], list(kept), old.at[:0]))
        found = joined(parts)
        return found._replace(at=self._index(found.rows))

    def _index(self, rows: Iterable[int]) -> Tensor:
        return torch.tensor(list(rows), dtype=torch.int64, device=self._device)

    def kinds(self, rows: Iterable[int]) -> set[StepKey]:
        """Return the steps that any of the given rows takes."""
        return {key for row in rows for key in self._rows[row]}

    def prepare(self) -> None:
        """Copy the tables of automata to the device now, so that no later call waits for it."""
        if self._device.type != "cpu":
            for step in self.states.steps.values():
                if isinstance(step.runs, RegistryUser):
                    step.runs.registry.tables_on(self._device)

    def advance(self, tokens: Tensor) -> None:
        """Advance all rows by committed tokens.

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
            BatchMismatch: The number of rows of logits differs from the number of requests.
            BrokenLogits: The logits of a request are broken, and no EOS is known to end it.
        """
        if not self.states.steps:
            return logits
        if len(logits) != len(self._rows):
            raise BatchMismatch(
                f"the logits have {len(logits)} rows, but the batch has {len(self._rows)} requests; pass a row for each request"
            )
        found, self.broken = self.states.processed(own_rows("BatchedRequests", len(self._rows), logits))
        return found
