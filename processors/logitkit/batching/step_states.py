"""The states of rows that share a batch, for each step of the canonical order that any of them takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.batching.gathered import Gathered
from logitkit.batching.steps import OwnStep, StepKey, rank
from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.ends import without_forced_ends
from logitkit.errors import ProcessorError
from logitkit.protocol.calls import advance_checked, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import counts_until_end, follows_text
from logitkit.protocol.processor import Processor
from logitkit.protocol.state import select

__all__ = ["Step", "StepStates"]

_logger = logging.getLogger(__name__)


class Step(NamedTuple):
    """One step for all rows.

    Args:
        runs: The processor of any row: what differs between them is in the state.
        state: Of all rows; those that lack the step have its neutral state.
        takes: [B] bool, the rows that have it.
    """

    runs: Processor[Any]
    state: Any
    takes: Tensor


class LogitsContext(Context):
    """The context of steps that share a batch: what they need of prompts is in their states, and to ask for it raises."""

    def __init__(self, vocabulary_size: int, device: torch.device) -> None:
        object.__setattr__(self, "vocabulary_size", vocabulary_size)
        object.__setattr__(self, "device", device)

    def _unknown(self) -> Any:
        raise ProcessorError(
            "in a batch of requests, the context of a processor of logitkit has vocabulary_size and device only; keep what is "
            "needed of the prompt and of lengths in the state"
        )

    prompt = prompt_lengths = lengths = max_length = stream_ids = max_lengths = property(_unknown)


@dataclass(frozen=True, slots=True, eq=False)
class StepStates:
    """What is known of B rows: a value, as every state is.

    Nothing here asks a device for a number, so that an engine may work ahead of it.

    A processor that breaks the protocol ends the rows that take its step, where EOS is known, and the error is logged.

    Args:
        rows: How many there are.
        device: Where they are.
        steps: What they take, in the canonical order.
        eos_ids: Ids that end a row; without any, what breaks the protocol is raised.
        broken: Steps whose states are not to be trusted, for they could not be advanced.
        own: The rows of registered processors, by their steps.
    """

    rows: int
    device: torch.device
    steps: Mapping[type, Step]
    eos_ids: tuple[int, ...] = ()
    broken: frozenset[type] = frozenset()
    own: Mapping[OwnStep, Gathered] = field(default_factory=dict)

    def advance(self, tokens: Tensor) -> StepStates:
        """Return the states after committed tokens: [B] or [B, T] int64 on the device, -1 = none."""
        after = {}
        eos_ids = next((eos_ids_of(runs) for runs, _, _ in self.steps.values() if follows_text(runs)), ())
        links = ((runs, state) for runs, state, _ in self.steps.values())
        going_on, ends = without_forced_ends(links, tokens, eos_ids)
        if ends is not None:
            # Alone, a row without a vocabulary does not know what ends it, and neither does it beside rows that have one.
            knows = reduce(or_, [takes for runs, _, takes in self.steps.values() if follows_text(runs)])
            ends = ends & (knows if tokens.dim() == 1 else knows[:, None])
        broken = self.broken
        for kind, (runs, state, takes) in self.steps.items():
            said = going_on if follows_text(runs) else tokens
            # A row that lacks the step has nothing to remember.
            said = torch.where(takes if tokens.dim() == 1 else takes[:, None], said, -1)
            try:
                if ends is not None and counts_until_end(runs):
                    now: Any = runs.advance_until_end(state, said, ends)  # type: ignore[attr-defined]
                else:
                    now = advance_checked(runs, state, said)
                after[kind] = Step(runs, now, takes)
            except ProcessorError as error:
                self._note_broken(kind, error)
                after[kind], broken = self.steps[kind], broken | {kind}
        own = {step: part.advance(going_on if follows_text(part.runs) else tokens) for step, part in self.own.items()}
        return replace(self, steps=after, broken=broken, own=own)

    def process_logits(self, logits: Tensor) -> Tensor:
        """Return the processed logits; `logits`, [B, V] floating point, may be overwritten."""
        context = LogitsContext(logits.shape[1], self.device)
        ended = []
        for kind in self._order():
            if isinstance(kind, OwnStep):
                logits = self.own[kind].process_logits(logits)
                continue
            runs, state, takes = self.steps[kind]
            if kind in self.broken:
                ended.append(takes)
                continue
            try:
                logits = process_checked(runs, state, logits, context)
            except ProcessorError as error:
                self._note_broken(kind, error)
                ended.append(takes)
        return self._ended(logits, reduce(or_, ended)) if ended else logits

    def _order(self) -> Iterable[StepKey]:
        return sorted((*self.steps, *self.own), key=rank) if self.own else self.steps

    def _note_broken(self, kind: type, error: ProcessorError) -> None:
        """Log an error, or raise it where rows cannot be ended."""
        if not self.eos_ids:
            raise error
        _logger.error("%s breaks the protocol; the rows that ask for it are ended", kind.__name__, exc_info=error)

    def _ended(self, logits: Tensor, rows: Tensor) -> Tensor:
        """Leave some rows, [B] bool, nothing but EOS."""
        logits = torch.where(rows[:, None], -torch.inf, logits)
        ends = torch.tensor([i for i in self.eos_ids if i < logits.shape[1]], device=logits.device)
        kept = logits.index_select(1, ends)
        return logits.index_copy_(1, ends, torch.where(rows[:, None], torch.zeros_like(kept), kept))

    def select(
        self,
        rows: Tensor,
        kinds: Collection[StepKey],
        places: Callable[[Sequence[int]], tuple[list[int], Tensor]] | None = None,
    ) -> StepStates:
        """Return some rows, in a new order; rows may repeat.

        Args:
            rows: [R] int64 on the device, from 0 to B - 1.
            kinds: The steps that matter to them; the others are left out.
            places: Takes rows of this batch, and returns which of them are there from now on, and where: [K, D] int64 on the
                device, D places of each, which may repeat. Needed for registered processors: the host does not know `rows`.
        """
        steps = {
            kind: Step(runs, select(state, rows), takes.index_select(0, rows))
            for kind, (runs, state, takes) in self.steps.items()
            if kind in kinds
        }
        own = {}
        for kind, part in self.own.items():
            if kind in kinds:
                assert places is not None
                which, at = places(part.rows)
                repeated = [place for place in which for _ in range(at.shape[1])]
                own[kind] = part.select(repeated, [-1] * len(repeated), at.flatten())
        return replace(self, rows=len(rows), steps=steps, own=own)
