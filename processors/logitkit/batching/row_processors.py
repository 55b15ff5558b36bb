"""Rows that have a processor each, as one processor, for engines and loops that know one processor only.

For example, two rows have the patterns `[0-9]+` and `[a-z]+`, a third one a penalty, and a fourth one nothing. There are two
steps: a pattern, in whose state the first two rows have their automata and the others are neutral, and a penalty, in whose
state only the third row counts tokens. So a step of the engine makes two calls, however many rows there are.

The steps are those of `BatchedRequests`, if the processor of a row consists of them: its processors are shipped ones, in the
canonical order. Any other processor, such as a class of yours, is a step by itself, which only its own rows take: on the host,
they are gathered for it; on a device, where the host does not know them, it sees all rows, and the others keep their logits.

The state is a tuple with the state of each step, of all rows, so rows move, fork and grow as those of any processor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import attrgetter, or_
from typing import Any, ClassVar

import torch
from torch import Tensor

from logitkit.batching.row_steps import RowStep, SharedKey, StepRows, canonical_steps, filler, index_of, process_own
from logitkit.batching.step_states import SharedStep, StepStates
from logitkit.composition.chain import Chain, members
from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.finished_rows import finished
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.lazy import lazy
from logitkit.protocol.calls import advance_checked, init_checked, own_rows
from logitkit.protocol.context import Context, select_context
from logitkit.protocol.declared import may_empty_rows
from logitkit.protocol.not_a_hook import NotAHook
from logitkit.protocol.processor import (
    Processor,
    batch_size_of,
    check_is_processor,
    name_of,
    reads_guidance,
    reads_max_length,
    reads_prompt,
)
from logitkit.protocol.state import concatenate, select

__all__ = ["RowProcessors"]


# The state of all steps.
RowStates = tuple[StepRows, ...]


@dataclass(frozen=True, eq=False)
class RowProcessors(NotAHook):
    """A processor for each row of a batch.

    Args:
        processors: The processor of each row, or None for a row without one. A batch with a multiple of this number of rows has
            the beams or samples of a row next to each other.

    Raises:
        ConfigurationError: There is no row, one of them is something else, or a processor is made for the rows of one batch.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> rows = RowProcessors((lk.BanTokens([0]), None, lk.RepetitionPenalty(2.0)))
        >>> context = lk.Context.of([[1], [1], [1]], vocabulary_size=3)
        >>> rows.process_logits(rows.init_state(context), torch.ones(3, 3), context)[1]
        tensor([[  -inf, 1.0000, 1.0000],
                [1.0000, 1.0000, 1.0000],
                [1.0000, 0.5000, 1.0000]])
    """

    processors: tuple[Processor[Any] | None, ...]

    # Every call of one of its processors is checked.
    checks_parts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.processors:
            raise ConfigurationError("there are no processors; give one for each row, or None for a row without one")
        for row, processor in enumerate(self.processors):
            if processor is None:
                continue
            check_is_processor(processor, f"the processor of row {row}")
            if batch_size_of(processor) is not None:
                raise ConfigurationError(
                    f"the processor of row {row} is a {name_of(processor)} for the {batch_size_of(processor)} rows of a batch; "
                    "give one for a single row"
                )

    @lazy
    def distinct(self) -> tuple[Processor[Any], ...]:
        """The processors, each once."""
        return tuple({id(p): p for p in self.processors if p is not None}.values())

    @lazy
    def steps(self) -> tuple[RowStep, ...]:
        """The steps that any of the rows takes: those of the canonical order, then the others."""
        shared: dict[SharedKey, dict[int, Processor[Any]]] = {}
        own = []
        for processor in self.distinct:
            taken = canonical_steps(processor)
            if taken is None:
                own.append(RowStep(id(processor), processor, {id(processor): processor}, is_shared=False))
                continue
            for key, link in taken.items():
                shared.setdefault(key, {})[id(processor)] = link
        first = [
            RowStep(key, next(iter(shared[key].values())), shared[key], True)
            for key in sorted(shared, key=attrgetter("rank"))
        ]
        return (*first, *own)

    @property
    def batch_size(self) -> int:
        """The number of rows, or a divisor of it."""
        return len(self.processors)

    @property
    def reads_prompt(self) -> bool:
        """Whether any of the processors uses the tokens of prompts."""
        return any(map(reads_prompt, self.distinct))

    @property
    def reads_max_length(self) -> bool:
        """Whether any of the processors uses the maximum length of a row."""
        return any(map(reads_max_length, self.distinct))

    @property
    def reads_guidance(self) -> bool:
        """Whether any of the processors reads the logits of a second pass."""
        return any(map(reads_guidance, self.distinct))

    @property
    def may_empty_rows(self) -> bool:
        """Whether any of the processors may leave a row without a token, and does not end such rows."""
        return bool(self.at_fault)

    @lazy
    def at_fault(self) -> tuple[Processor[Any], ...]:
        """The processors, those of chains one by one, that may leave a row without a token, and do not end such rows."""
        alone = ((p.at_fault if isinstance(p, Chain) else (p,) if may_empty_rows(p) else ()) for p in self.distinct)
        return tuple(part for parts in alone for part in parts)

    @lazy
    def known_eos_ids(self) -> tuple[int, ...]:
        """The EOS ids of the first processor that knows any."""
        # As in a chain, those of a vocabulary come first.
        known = sorted(self.distinct, key=lambda p: not any(hasattr(part, "vocabulary") for part in members(p)))
        return next((found for p in known if (found := eos_ids_of(p))), ())

    @lazy
    def parts_of_rows(self) -> tuple[Processor[Any], ...]:
        """All processors, those of chains one by one."""
        return tuple(part for processor in self.distinct for part in members(processor))

    def init_state(self, context: Context) -> RowStates:
        """Return the states of all steps for the rows of `context`.

        Raises:
            BatchMismatch: The number of rows is not a multiple of the number of processors.
        """
        rows, given = context.batch_size, len(self.processors)
        if rows % given:
            raise BatchMismatch(f"there are {rows} rows, but {given} processors; give one for each row, or a divisor")
        of_row = [self.processors[row // (rows // given)] for row in range(rows)]
        return tuple(self._first(step, of_row, context) for step in self.steps)

    def _first(self, step: RowStep, of_row: Sequence[Processor[Any] | None], context: Context) -> StepRows:
        by_link: dict[int, list[int]] = {}
        for row, processor in enumerate(of_row):
            link = step.links.get(id(processor))
            if link is not None:
                by_link.setdefault(id(link), []).append(row)
        links = {id(link): link for link in step.links.values()}
        if not of_row:
            return StepRows(torch.zeros(0, dtype=torch.bool, device=context.device), init_checked(step.runs, context))
        rows, parts = list[int](), list[Any]()
        for name, numbers in by_link.items():
            whole = len(numbers) == context.batch_size
            shown = context if whole else select_context(context, index_of(numbers, context.device))
            parts.append(init_checked(links[name], shown))
            rows += numbers
        taking = {*rows}
        lacking = [row for row in range(context.batch_size) if row not in taking]
        if lacking:
            parts.append(filler(step, len(lacking), context.device, parts[0]))
        state = concatenate(parts) if len(parts) > 1 else parts[0]
        order = [*rows, *lacking]
        if order != sorted(order):
            places = sorted(range(len(order)), key=order.__getitem__)
            state = select(state, index_of(places, context.device))
        takes = [row in taking for row in range(context.batch_size)]
        return StepRows(torch.tensor(takes, dtype=torch.bool, device=context.device), state)

    def advance(self, state: RowStates, tokens: Tensor) -> RowStates:
        """Return the states of all steps after `tokens`, [B] or [B, T] int64, -1 for none."""
        shared = self._shared(state)
        after = [] if shared is None else [step.state for step in shared.advance(tokens).steps.values()]
        for step, (takes, before) in zip(self.steps[len(after) :], state[len(after) :], strict=True):
            own = torch.where(takes if tokens.dim() == 1 else takes[:, None], tokens, -1)
            after.append(advance_checked(step.runs, before, own))
        return tuple(StepRows(rows.takes, now) for rows, now in zip(state, after, strict=True))

    def process_logits(self, state: RowStates, logits: Tensor, context: Context) -> tuple[RowStates, Tensor]:
        """Run every step on the logits, [B, V]; a row without a processor keeps its logits, bit for bit."""
        shared = self._shared(state)
        done = 0
        if shared is not None:
            done = len(shared.steps)
            logits = shared.run(own_rows(type(self).__name__, shared.rows, logits), context.guidance_logits)
        for step, rows in zip(self.steps[done:], state[done:], strict=True):
            logits = process_own(step.runs, rows, own_rows(type(self).__name__, len(rows.takes), logits), context)
        return state, logits

    def _shared(self, state: RowStates) -> StepStates | None:
        """Return the states of the steps of the canonical order, which come first; None if there are none."""
        steps = {
            step.key: SharedStep(step.runs, rows.state, rows.takes)
            for step, rows in zip(self.steps, state, strict=True)
            if step.is_shared
        }
        if not steps:
            return None
        takes = state[0].takes
        return StepStates(len(takes), takes.device, steps)

    def finish(self, state: RowStates, rows: Tensor) -> RowStates:
        """Return a state in which some rows, [B] bool, have ended."""
        return tuple(
            StepRows(takes, finished(step.runs, before, rows & takes))
            for step, (takes, before) in zip(self.steps, state, strict=True)
        )

    def is_finished(self, state: RowStates) -> Tensor:
        """Return [B] bool, the rows whose constraint has seen EOS."""
        return self._which(state, "is_finished")

    def is_dead(self, state: RowStates) -> Tensor:
        """Return [B] bool, the rows that have left the language of their constraint."""
        return self._which(state, "is_dead")

    def fired(self, state: RowStates) -> Tensor:
        """Return [B] bool, the rows that a stop has ended."""
        return self._which(state, "fired")

    def _which(self, state: RowStates, name: str) -> Tensor:
        found = [takes & getattr(p, name)(s) for takes, p, s in self.links(state) if hasattr(p, name)]
        none = torch.zeros_like(state[0].takes) if state else torch.zeros(len(self.processors), dtype=torch.bool)
        return reduce(or_, found, none)

    def links(self, state: RowStates) -> Iterator[tuple[Tensor, Any, Any]]:
        """Yield the rows, the processor and the state of each part of each step."""
        for step, (takes, of_step) in zip(self.steps, state, strict=True):
            states = of_step if isinstance(step.runs, Chain) else (of_step,)
            for part, of_part in zip(members(step.runs), states, strict=True):
                yield takes, part, of_part

    def selected(self, state: RowStates, rows: Sequence[int], device: torch.device) -> tuple[RowProcessors, RowStates]:
        """Return some rows in a new order, with their processors; there is one processor for each row.

        Args:
            state: The state.
            rows: The rows, at least one; rows may repeat.
            device: The device of the state.
        """
        made = RowProcessors(tuple(self.processors[row] for row in rows))
        if {*map(id, made.distinct)} == {*map(id, self.distinct)}:
            # The same steps, which take some time to find.
            object.__setattr__(made, "steps", self.steps)
        kept = {step.key: rows_of for step, rows_of in zip(self.steps, state, strict=True)}
        index = index_of(rows, device)
        return made, tuple(select(kept[step.key], index) for step in made.steps)

    def joined(
        self, state: RowStates, other: RowProcessors, state_of_other: RowStates, device: torch.device
    ) -> tuple[RowProcessors, RowStates]:
        """Return the rows of both, one after the other; each has one processor for each row.

        Args:
            state: The state of these rows.
            other: The processors of the other rows.
            state_of_other: Their state.
            device: The device of both states.
        """
        made = RowProcessors((*self.processors, *other.processors))
        both = [
            (len(one.processors), {step.key: rows for step, rows in zip(one.steps, of_one, strict=True)})
            for one, of_one in ((self, state), (other, state_of_other))
        ]
        found = []
        for step in made.steps:
            there = next(known[step.key] for _, known in both if step.key in known)
            parts = []
            for count, known in both:
                part = known.get(step.key)
                if part is None:
                    none = torch.zeros(count, dtype=torch.bool, device=device)
                    part = StepRows(none, filler(step, count, device, there.state))
                parts.append(part)
            found.append(concatenate(parts))
        return made, tuple(found)
