"""The states of the rows of a batch, for each step of the canonical order that any of them takes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.batching.gathered import Gathered
from logitkit.batching.steps import StepKey
from logitkit.composition.conflicts import eos_ids_of
from logitkit.composition.empty_rows import end_rows
from logitkit.composition.ends import without_forced_ends
from logitkit.errors import BrokenLogits, ProcessorError
from logitkit.protocol.calls import advance_checked, by_tensors, process_checked
from logitkit.protocol.context import Context
from logitkit.protocol.declared import counts_until_end, follows_text
from logitkit.protocol.processor import Processor, name_of
from logitkit.protocol.state import concatenate, select
from logitkit.runtime.logit_arrays import as_array, check_row
from logitkit.runtime.shared_passes import process_together, shares_passes
from logitkit.runtime.tensor_logits import broken_rows, end_broken

__all__ = ["SharedStep", "StepStates"]

_logger = logging.getLogger(__name__)


class SharedStep(NamedTuple):
    """One step of shipped processors, for all rows of a batch.

    Args:
        runs: The processor of any of the rows, because all differences between them are in the state.
        state: The state of all rows; a row that lacks the step has the neutral state.
        takes: [B] bool, the rows that have the step.
        broken: Whether the processor has broken the protocol in `advance`, so that the state is stale.
    """

    runs: Processor[Any]
    state: Any
    takes: Tensor
    broken: bool = False


class LogitsContext(Context):
    """The context of steps that share a batch: all that they need from prompts is in their states, and other fields raise."""

    def __init__(self, vocabulary_size: int, device: torch.device, guidance_logits: Tensor | None = None) -> None:
        object.__setattr__(self, "vocabulary_size", vocabulary_size)
        object.__setattr__(self, "device", device)
        object.__setattr__(self, "guidance_logits", guidance_logits)

    def _unknown(self) -> Any:
        raise ProcessorError(
            "in a batch of requests, the context of a processor of logitkit has vocabulary_size and device only; keep everything "
            "else that you need from the prompt or the lengths in the state"
        )

    prompt = prompt_lengths = lengths = max_length = stream_ids = max_lengths = property(_unknown)


@dataclass(frozen=True, slots=True, eq=False)
class StepStates:
    """The states of B rows: an immutable value, as every state is.

    No method reads a value from the device, so an engine may queue work ahead of it.

    If a processor breaks the protocol and EOS is known, the rows that take its step are ended, and the error is logged. So is a
    row whose logits are broken: an error would end the requests of others too.

    Args:
        rows: The number of rows.
        device: Their device.
        steps: The steps that any of them takes, in the canonical order.
        eos_ids: The ids that end a row. Without any, the error of a processor that breaks the protocol is raised.
    """

    rows: int
    device: torch.device
    steps: Mapping[Any, SharedStep | Gathered]
    eos_ids: tuple[int, ...] = ()

    def advance(self, tokens: Tensor) -> StepStates:
        """Return the states after committed tokens: [B] or [B, T] int64 on the device, -1 = none."""
        going_on, ends, knows = self._ends(tokens)
        after: dict[StepKey, SharedStep | Gathered] = {}
        for key, step in self.steps.items():
            own = going_on if follows_text(step.runs) else tokens
            if isinstance(step, Gathered):
                after[key] = step.advance(own)
                continue
            # A row that lacks the step has nothing to remember.
            own = torch.where(step.takes if tokens.dim() == 1 else step.takes[:, None], own, -1)
            try:
                if ends is None or not counts_until_end(step.runs):
                    now: Any = advance_checked(step.runs, step.state, own)
                else:
                    now = step.runs.advance_until_end(step.state, own, ends)  # type: ignore[attr-defined]
                    if by_tensors(tokens) or not knows.all():
                        # A row that follows no text does not know its EOS, whether it is alone or next to rows that do.
                        alone = advance_checked(step.runs, step.state, own)
                        rows = torch.arange(self.rows, device=self.device)
                        now = select(concatenate([now, alone]), rows + self.rows * ~knows)
                after[key] = step._replace(state=now)
            except ProcessorError as error:
                self._report_broken(step, error)
                after[key] = step._replace(broken=True)
        return replace(self, steps=after)

    def _ends(self, tokens: Tensor) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return the tokens without forced EOS, which tokens end their rows (None if no step needs it), and the rows of text."""
        shared = [step for step in self.steps.values() if isinstance(step, SharedStep)]
        of_text = [step for step in shared if follows_text(step.runs)]
        if not of_text:
            return tokens, None, tokens
        links = [(step.runs, step.state) for step in shared]
        # By EOS ids: the rows of texts that end with them. Nearly always, all texts are of one vocabulary.
        known: dict[tuple[int, ...], Tensor] = {}
        for step in of_text:
            ids = eos_ids_of(step.runs)
            known[ids] = known[ids] | step.takes if ids in known else step.takes
        (going_on, ends), *others = (without_forced_ends(links, tokens, ids) for ids in known)
        for rows, (other_on, other_ends) in zip([*known.values()][1:], others, strict=True):
            theirs = rows if tokens.dim() == 1 else rows[:, None]
            going_on = torch.where(theirs, other_on, going_on)
            ends = None if ends is None or other_ends is None else torch.where(theirs, other_ends, ends)
        return going_on, ends, reduce(or_, known.values())

    def process_logits(self, logits: Tensor) -> Tensor:
        """Return the processed logits; `logits`, [B, V] floating point, may be overwritten."""
        return self.processed(logits)[0]

    def processed(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the processed logits, and which rows have only EOS left because their logits are broken.

        Args:
            logits: [B, V] floating point, which may be overwritten.

        Returns:
            [B, V], and [B] bool on their device. On the host, broken rows are logged too; None if there are none.

        Raises:
            BrokenLogits: The logits of a row that takes a step are broken, on the host, and no EOS is known.
        """
        broken = self._broken(logits)
        found = self.run(logits)
        return (found if broken is None or not self.eos_ids else end_broken(found, broken, self.eos_ids)), broken

    def _broken(self, logits: Tensor) -> Tensor | None:
        taking = torch.zeros(self.rows, dtype=torch.bool, device=self.device)
        for step in self.steps.values():
            taking = taking | step.takes if isinstance(step, SharedStep) else taking.index_fill(0, step.at, 1)
        if by_tensors(logits):
            return broken_rows(logits) & taking
        array, never, _ = as_array(logits)
        found = torch.zeros_like(taking)
        for row in taking.nonzero()[:, 0].tolist():
            try:
                check_row(array[row], never, row)
            except BrokenLogits as error:
                if not self.eos_ids:
                    raise
                _logger.error("%s; its request is ended", error)  # noqa: TRY400 - where it was noticed says nothing
                found[row] = True
        return found if bool(found.any()) else None

    def run(self, logits: Tensor, guidance_logits: Tensor | None = None) -> Tensor:
        """Return the logits after all steps, without a check of the given ones; see `processed`.

        Args:
            logits: [B, V] floating point, which may be overwritten.
            guidance_logits: [B, V] floating point, the logits of a second pass, or None.
        """
        context = LogitsContext(logits.shape[1], self.device, guidance_logits)
        ended, done, steps = [], 0, [*self.steps.values()]
        for place, step in enumerate(steps):
            if place >= done and by_tensors(logits):
                count, logits = process_together(_run(steps[place:]), logits)
                done = place + count
            if place < done:
                continue
            if isinstance(step, Gathered):
                logits = step.process_logits(logits)
            elif step.broken:
                ended.append(step.takes)
            else:
                try:
                    logits = process_checked(step.runs, step.state, logits, context)
                except ProcessorError as error:
                    self._report_broken(step, error)
                    ended.append(step.takes)
        if not ended:
            return logits
        return end_rows(torch.where(reduce(or_, ended)[:, None], -torch.inf, logits), self.eos_ids)[0]

    def _report_broken(self, step: SharedStep, error: ProcessorError) -> None:
        """Log an error, or raise it if rows cannot be ended."""
        if not self.eos_ids:
            raise error
        _logger.error("%s breaks the protocol; the rows that ask for it are ended", name_of(step.runs), exc_info=error)

    def select(
        self,
        rows: Tensor,
        kinds: Collection[StepKey],
        places: Callable[[Sequence[int]], tuple[list[int], Tensor]] | None = None,
    ) -> StepStates:
        """Return some rows, in a new order; rows may repeat.

        Args:
            rows: [R] int64 on the device, from 0 to B - 1.
            kinds: The steps that these rows need; the others are left out.
            places: Takes rows of this batch. Returns which of them are among the new rows, and their places there: [K, D] int64
                on the device, D places of each, which may repeat. Needed for registered processors, because the host does not
                know `rows`.
        """
        steps: dict[StepKey, SharedStep | Gathered] = {}
        for key, step in self.steps.items():
            if key not in kinds:
                continue
            if isinstance(step, SharedStep):
                steps[key] = step._replace(state=select(step.state, rows), takes=step.takes.index_select(0, rows))
            else:
                assert places is not None
                which, at = places(step.rows)
                repeated = [place for place in which for _ in range(at.shape[1])]
                steps[key] = step.select(repeated, [-1] * len(repeated), at.flatten())
        return replace(self, rows=len(rows), steps=steps)


def _run(steps: Sequence[SharedStep | Gathered]) -> list[tuple[Processor[Any], Any]]:
    """Return the first of some steps that may share passes over the logits."""
    found: list[tuple[Processor[Any], Any]] = []
    for step in steps:
        if not isinstance(step, SharedStep) or step.broken or not shares_passes(step.runs):
            break
        found.append((step.runs, step.state))
    return found
