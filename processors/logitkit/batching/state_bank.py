"""The states of requests at fixed rows of tensors, where a device advances them by tokens that the host does not know yet.

An engine that works ahead launches a step before it has read the tokens of the step before, or replays a graph without running
any Python. All that the host knows is which requests a step has. So each request has a row here. A step gets the numbers of its
rows and their newest tokens as tensors, advances these rows where they are, and processes the logits.

For example, requests A and B have the rows 1 and 2. A step with the rows [2, 1] and the tokens [7, -1] advances B by token 7, and
A, whose prompt has just been read, by nothing. Row 0 belongs to no request: the unused rows of a graph have it.

The tensors of the bank stay where they are as long as the new requests fit: they need no new step, and no more room in any field.
Otherwise, they are replaced, and `version` changes; graphs that were captured before must not be used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from logitkit.batching.bank_entries import begun, check_captured, context_of
from logitkit.batching.entering import NewRequest
from logitkit.batching.row_processors import RowProcessors
from logitkit.batching.row_steps import RowStep, StepRows, filler, index_of
from logitkit.composition.engine_logits import EngineLogits
from logitkit.errors import ProcessorError
from logitkit.protocol.calls import count_tokens
from logitkit.protocol.context import Context, concatenate_context, context_to, largest, select_context
from logitkit.protocol.state import concatenate, leaves, select, to
from logitkit.runtime.registry_user import RegistryUser

__all__ = ["StateBank"]


class StateBank:
    """The states of requests, each at a row of its own.

    Args:
        device: The device of the logits.
        columns: The number of columns of the logits.
        eos_ids: The EOS ids of the engine.
        captured: Whether graphs run the steps: then a state must not grow or need the host.
        reports: Whether broken logits on an accelerator are an error, for which the host waits in the next step. Otherwise, their
            rows end without one.
        wait: Waits until all steps that were launched are done. Called before tensors are replaced.

    Attributes:
        version: A number that changes when tensors are replaced.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> bank = StateBank(torch.device("cpu"), columns=3)
        >>> bank.grow(3)
        >>> bank.put({1: NewRequest(lk.RepetitionPenalty(2.0), prompt=[]), 2: NewRequest(lk.BanTokens([0]), prompt=[])})
        >>> bank.step(torch.tensor([2, 1]), torch.tensor([-1, 2]), torch.ones(2, 3))
        tensor([[  -inf, 1.0000, 1.0000],
                [1.0000, 1.0000, 0.5000]])
    """

    def __init__(
        self,
        device: torch.device,
        columns: int,
        eos_ids: tuple[int, ...] = (),
        *,
        captured: bool = False,
        reports: bool = True,
        wait: Callable[[], None] = lambda: None,
    ) -> None:
        self._device, self._columns, self._eos_ids = device, columns, eos_ids
        self._captured, self._reports, self._wait = captured, reports, wait
        self.version = 0
        self._runs = RowProcessors((None,))
        self._state: tuple[StepRows, ...] = ()
        self._context = context_of([NewRequest(None, [])], columns, device)  # type: ignore[arg-type]
        self._process = EngineLogits(self._runs)
        self._tables: list[Any] = []
        # By row that has a request: its maximum length, if known. The largest of them; None if any is unknown.
        self._limits: dict[int, int | None] = {}
        self._longest: int | None = None
        self._limits_there: Tensor | None = None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._runs.processors)

    def grow(self, rows: int) -> None:
        """Make room for this many rows in all."""
        more = rows - len(self)
        if self._reports:
            self._process.raise_broken()
        if more > 0:
            nothing = [NewRequest(None, [])] * more  # type: ignore[arg-type]
            self._replace(RowProcessors((None,) * more), (), context_of(nothing, self._columns, self._device), None)

    def put(self, requests: Mapping[int, NewRequest]) -> None:
        """Put requests into rows, in place of those that had them; no step that was launched may still use these rows.

        Args:
            requests: By row, from 1 on.

        Raises:
            ConfigurationError: Graphs run the steps, and the processor of a request needs the host or a maximum length.
            Exception: Any error of a processor; the bank is then unchanged.
        """
        if self._reports:
            self._process.raise_broken()
        rows, runs, state, context = begun(requests, self._columns)
        if self._captured:
            check_captured(state, list(requests.values()))
        state, context = to(state, self._device), context_to(context, self._device)
        if not self._fits(runs, state, context, rows):
            self._replace(runs, state, context, rows)
        self._limits |= {row: request.limit for row, request in requests.items()}
        self._longest, self._limits_there = largest([*self._limits.values()]), None
        tables = self._current_tables()
        if len(tables) != len(self._tables) or any(map(lambda a, b: a is not b, tables, self._tables)):
            # A graph reads the tables that it was captured with.
            self._tables = tables
            self.version += 1

    def _merged(self, processors: tuple[Any, ...], new: RowProcessors) -> RowProcessors:
        """Return the processors of rows, which keep all shared steps, so that a step that comes back finds its place."""
        made = RowProcessors(processors)
        shared: dict[Any, RowStep] = {step.key: step for step in (*new.steps, *self._runs.steps) if step.is_shared}
        used = {id(processor) for processor in processors}
        own = {step.key: step for step in (*self._runs.steps, *new.steps) if not step.is_shared and step.key in used}
        steps = (*(shared[key] for key in sorted(shared, key=attrgetter("rank"))), *own.values())
        object.__setattr__(made, "steps", steps)
        return made

    def _fits(self, runs: RowProcessors, state: tuple[StepRows, ...], context: Context, rows: list[int]) -> bool:
        """Write requests into their rows, if there is room in all fields, and return whether there was."""
        processors = [*self._runs.processors]
        for row, processor in zip(rows, runs.processors, strict=True):
            processors[row] = processor
        made = self._merged(tuple(processors), runs)
        if not self._runs.distinct:
            # The first request: until now, steps did nothing.
            return False
        if [step.key for step in made.steps] != [step.key for step in self._runs.steps]:
            return False
        # Row 0 never changes, and has the width of every field.
        first = index_of([0], self._device)
        there = {step.key: rows_of for step, rows_of in zip(runs.steps, state, strict=True)}
        new = [
            concatenate(
                [select(rows_of, first), there.get(step.key) or _nothing(step, len(rows), rows_of, self._device)]
            )
            for step, rows_of in zip(made.steps, self._state, strict=True)
        ]
        both = concatenate_context([select_context(self._context, first), _trimmed(context, made)])
        pairs = [
            *zip(leaves(self._state), leaves(tuple(new)), strict=True),
            *zip(_tensors(self._context), _tensors(both), strict=True),
        ]
        if any(whole.shape[1:] != part.shape[1:] for whole, part in pairs):
            return False
        index = index_of(rows, self._device)
        for whole, part in pairs:
            whole.index_copy_(0, index, part[1:])
        self._runs, self._process = made, EngineLogits(made)
        return True

    def _replace(
        self, runs: RowProcessors, state: tuple[StepRows, ...], context: Context, rows: list[int] | None
    ) -> None:
        """Build new tensors with requests in their rows, or with more rows at the end if `rows` is None."""
        self._wait()
        count, more = len(self), len(runs.processors)
        processors = [*self._runs.processors, *runs.processors]
        places = list(range(count + more))
        if rows is not None:
            for place, row in enumerate(rows):
                places[row] = count + place
            places = places[:count]
        made = self._merged(tuple(processors[place] for place in places), runs)
        old = {step.key: rows_of for step, rows_of in zip(self._runs.steps, self._state, strict=True)}
        new = {step.key: rows_of for step, rows_of in zip(runs.steps, state, strict=True)}
        index = index_of(places, self._device)
        found = []
        for step in made.steps:
            like = new.get(step.key) or old[step.key]
            parts = [
                known.get(step.key) or _nothing(step, size, like, self._device)
                for known, size in ((old, count), (new, more))
            ]
            found.append(select(concatenate(parts), index))
        both = concatenate_context([_trimmed(self._context, made), _trimmed(context, made)])
        # Rows of their own memory, which steps write to.
        self._state, self._context = tuple(found), select_context(both, index)
        self._runs, self._process = made, EngineLogits(made)
        self.version += 1
        self._limits_there = None

    def _current_tables(self) -> list[Any]:
        if self._device.type == "cpu":
            return []
        parts = [part for part in self._parts() if isinstance(part, RegistryUser)]
        return [part.registry.layout_on(self._device) for part in parts]

    def _parts(self) -> list[Any]:
        return [part for step in self._runs.steps for part in RowProcessors((step.runs,)).parts_of_rows]

    def step(self, rows: Tensor, tokens: Tensor, logits: Tensor) -> Tensor:
        """Advance rows by tokens, and process their logits. On an accelerator, the host reads nothing.

        Args:
            rows: [N] int64 on the device. Only row 0 may be there more than once.
            tokens: [N] int64 on the device; -1 for none, as in row 0.
            logits: [N, V] floating point, which may be overwritten.

        Returns:
            [N, V].

        Raises:
            BrokenLogits: The logits of a row are broken; on an accelerator, those of the last step, and only if `reports`.
            ProcessorError: The state of a processor has grown, and graphs run the steps.
        """
        runs = self._runs
        if not runs.distinct:
            return logits
        if self._reports:
            self._process.raise_broken()
        state = runs.advance(select(self._state, rows), tokens)
        context = select_context(self._context, rows)
        context = context.at(context.lengths + count_tokens(tokens))
        self._write(rows, state, context)
        if not self._captured and not all(step.is_shared for step in runs.steps):
            context = self._with_limits(context, rows)
        if context.vocabulary_size != logits.shape[1]:
            context = replace(context, vocabulary_size=logits.shape[1])
        found = self._process(state, logits, context, self._eos_ids)
        if not self._reports:
            self._process.forget_broken()
        return found

    def _with_limits(self, context: Context, rows: Tensor) -> Context:
        """Return the context of a step with the maximum length of each row, if those of all requests are known."""
        if self._longest is None:
            return context
        if self._limits_there is None:
            of_rows = [self._limits.get(row) or 0 for row in range(len(self))]
            self._limits_there = torch.tensor(of_rows, dtype=torch.int64, device=self._device)
        return replace(context, max_length=self._longest, max_lengths=self._limits_there[rows])

    def raise_broken(self) -> None:
        """Raise `BrokenLogits` if logits of the last step, on an accelerator, were broken."""
        self._process.raise_broken()

    def _write(self, rows: Tensor, state: tuple[StepRows, ...], context: Context) -> None:
        pairs = list(zip(leaves(self._state), leaves(state), strict=True))
        if any(whole.shape[1:] != part.shape[1:] for whole, part in pairs):
            if self._captured:
                raise ProcessorError(
                    "the state of a processor has grown, which a graph cannot follow; give max_new_tokens"
                )
            # A field without a maximum length, which has doubled.
            count = len(self)
            places = torch.arange(count, device=self._device).index_copy(
                0, rows, torch.arange(count, count + len(rows), device=self._device)
            )
            self._state = select(concatenate([self._state, state]), places)
            self.version += 1
        else:
            for whole, part in pairs:
                whole.index_copy_(0, rows, part)
        self._context.lengths.index_copy_(0, rows, context.lengths)


def _trimmed(context: Context, runs: RowProcessors) -> Context:
    """Return a context for the rows of a bank: the prompts only if a processor may read them, and no maximum lengths."""
    prompt = context.prompt if any(not step.is_shared for step in runs.steps) else context.prompt[:, :0]
    return replace(context, prompt=prompt, max_length=None, max_lengths=None)


def _tensors(context: Context) -> list[Tensor]:
    return [context.prompt, context.prompt_lengths, context.lengths, context.streams]


def _nothing(step: RowStep, count: int, like: StepRows, device: torch.device) -> StepRows:
    """Return the state of rows that do not take a step."""
    takes = torch.zeros(count, dtype=torch.bool, device=device)
    return StepRows(takes, filler(step, count, device, like.state))
