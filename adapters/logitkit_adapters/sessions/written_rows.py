"""Rows while they are being written: the choice of tokens, and the processor's state."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from logitkit.context import Context, select_context
from logitkit.processor import Processor, process_checked
from logitkit.sessions.seam import state_at_seam
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.token_choice import best_beams, drawn_tokens, without_twins
from logitkit.state import concatenate, select
from logitkit_adapters.sessions.batches.protocol import BatchRun

__all__ = ["Decoding", "WrittenRows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How tokens are chosen, and when a row ends.

    Args:
        processor: What is applied to the logits, if anything.
        beams: Whether the samples of a prompt are its beams.
        seed: Seed of what is drawn; None: the likeliest token.
        eos_ids: The ids that end a row.
        pad_id: What stands behind the end of a row; masks tell it from a token.
        carry_state: Whether the processor goes on from where it was.
    """

    processor: Processor[Any] | None
    beams: bool
    seed: int | None
    eos_ids: Sequence[int]
    pad_id: int
    carry_state: bool


class WrittenRows:
    """The rows of a state while they grow.

    Args:
        how: How tokens are chosen.
        state: The rows.
        columns: Columns of the logits.
        steps: Most tokens to come.
    """

    def __init__(self, how: Decoding, state: SequenceState, columns: int, steps: int) -> None:
        self.how, self.before = how, state
        self.ids, self.masks = state.token_ids, state.attention_masks
        self.lengths = state.attention_masks.sum(1)
        self.prompt_lengths, self.seams = state.prompt_lengths, state.seams if how.carry_state else self.lengths
        self.finished = state.finished if how.carry_state else torch.zeros_like(state.finished)
        self.ended = self.finished
        self.weights = without_twins(state.weights, state.rows) if how.beams else state.weights
        self.ends = torch.tensor(list(how.eos_ids), dtype=torch.int64, device=self.ids.device)
        longest = int(self.lengths.max()) + steps
        self.context = Context.of(state.rows, columns, self.ids.device, longest)
        self.processor_state = state.processor_state if how.carry_state else None
        if how.processor is not None and self.processor_state is None:
            self.processor_state = state_at_seam(
                how.processor, state.rows, self.prompt_lengths.tolist(), self.seams.tolist(), self.context
            )

    def choose(self, logits: Tensor, run: BatchRun) -> None:
        """Append the next token of every row."""
        likelihood = logits.log_softmax(1)
        scores = likelihood.clone() if self.how.beams else logits
        if self.how.processor is not None:
            context = replace(self.context, lengths=self.lengths)
            self.processor_state, scores = process_checked(self.how.processor, self.processor_state, scores, context)
        if self.how.beams:
            self.weights, rows, tokens = best_beams(self.weights, scores, self.ended)
            self._select(rows, run)
        else:
            tokens = torch.where(self.ended, -1, self._next(scores))
            gained = likelihood.gather(1, tokens.clamp(min=0)[:, None])[:, 0]
            gained = torch.where(self.ended, torch.zeros_like(gained), gained)
            self.weights = self.weights + gained.reshape(self.weights.shape).to(self.weights.dtype)
        self._append(tokens)

    def replace_missing_beams(self, run: BatchRun) -> None:
        """Let the best row of a prompt stand where there are fewer texts than beams; the weight stays -inf."""
        beams = self.weights.shape[1]
        rows = torch.arange(len(self.ids), device=self.ids.device)
        self._select(torch.where(self.weights.reshape(-1) == -torch.inf, rows - rows % beams, rows), run)

    def only(self, row: int) -> WrittenRows:
        """Return one row, to be written by itself."""
        one = copy.copy(self)
        one.keep(torch.tensor([row], device=self.ids.device))
        one.weights = self.weights.reshape(-1)[row].reshape(1, 1)
        one.context = select_context(self.context, torch.tensor([row], device=self.ids.device))
        return one

    def join(self, parts: Sequence[WrittenRows]) -> None:
        """Take over all rows, each written by itself."""
        width = max(part.ids.shape[1] for part in parts)

        def padded(values: Tensor, blank: int) -> Tensor:
            return torch.nn.functional.pad(values, (0, width - values.shape[1]), value=blank)

        self.ids = torch.cat([padded(part.ids, self.how.pad_id) for part in parts])
        self.masks = torch.cat([padded(part.masks, 0) for part in parts])
        self.weights = torch.cat([part.weights for part in parts]).reshape(self.weights.shape)
        self.finished = torch.cat([part.finished for part in parts])
        if self.how.processor is not None:
            self.processor_state = concatenate([part.processor_state for part in parts])

    def state(self) -> SequenceState:
        """Return the rows as they are now, without a cache."""
        return replace(
            self.before,
            token_ids=self.ids,
            weights=self.weights,
            attention_masks=self.masks,
            processor=self.how.processor,
            processor_state=self.processor_state,
            prompt_lengths=self.prompt_lengths,
            seams=self.seams,
            finished=self.finished,
        )

    def _next(self, scores: Tensor) -> Tensor:
        if self.how.seed is None:
            return scores.argmax(1)
        return drawn_tokens(scores, self.how.seed, self.context.streams, self.lengths)

    def _append(self, tokens: Tensor) -> None:
        if self.how.processor is not None:
            self.processor_state = self.how.processor.advance(self.processor_state, tokens)
        is_end = torch.isin(tokens, self.ends)
        is_text = (tokens >= 0) & ~is_end
        self.ids = torch.cat([self.ids, torch.where(tokens < 0, self.how.pad_id, tokens)[:, None]], 1)
        self.masks = torch.cat([self.masks, is_text.to(self.masks.dtype)[:, None]], 1)
        self.lengths = self.lengths + is_text
        self.finished = self.finished | is_end
        self.ended = self.ended | ~is_text

    def _select(self, rows: Tensor, run: BatchRun) -> None:
        if torch.equal(rows, torch.arange(len(rows), device=rows.device)):
            return
        run.select(rows)
        self.keep(rows)
        # What a beam draws depends on its place, whatever row it continues.
        self.context = replace(select_context(self.context, rows), stream_ids=self.context.streams)

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows."""
        for name in ("ids", "masks", "lengths", "prompt_lengths", "seams", "finished", "ended"):
            setattr(self, name, getattr(self, name)[rows])
        if self.how.processor is not None:
            self.processor_state = select(self.processor_state, rows)
