"""The states of rows that share a batch, for each step of the canonical order that any of them takes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.chain import follows_text
from logitkit.context import Context
from logitkit.processor import Processor
from logitkit.state import select
from logitkit.tokens.forced import ForcedTokens

__all__ = ["Step", "StepStates"]


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


@dataclass(frozen=True, slots=True, eq=False)
class StepStates:
    """What is known of B rows: a value, as every state is.

    Nothing here asks a device for a number, so that an engine may work ahead of it.

    Args:
        rows: How many there are.
        device: Where they are.
        steps: What they take, in the canonical order.
    """

    rows: int
    device: torch.device
    steps: Mapping[type, Step]

    def advance(self, tokens: Tensor) -> StepStates:
        """Return the states after committed tokens: [B] or [B, T] int64 on the device, -1 = none."""
        after = {}
        forced = self.steps.get(ForcedTokens)
        for kind, (runs, state, takes) in self.steps.items():
            said = tokens
            if forced is not None and follows_text(runs):
                said = forced.runs.without_ends(forced.state, tokens, runs.vocabulary.eos_ids)  # type: ignore[attr-defined]
            # A row that lacks the step has nothing to remember.
            said = torch.where(takes if tokens.dim() == 1 else takes[:, None], said, -1)
            after[kind] = Step(runs, runs.advance(state, said), takes)
        return StepStates(self.rows, self.device, after)

    def process_logits(self, logits: Tensor) -> tuple[StepStates, Tensor]:
        """Return the states and the processed logits; `logits`, [B, V] floating point, may be overwritten."""
        # What a processor needs of the prompt is in its state.
        nothing = torch.zeros((self.rows, 0), dtype=torch.int64, device=self.device)
        lengths = torch.zeros(self.rows, dtype=torch.int64, device=self.device)
        context = Context(
            prompt=nothing,
            prompt_lengths=lengths,
            lengths=lengths,
            vocabulary_size=logits.shape[1],
            device=self.device,
        )
        after = {}
        for kind, (runs, state, takes) in self.steps.items():
            now, logits = runs.process_logits(state, logits, context)
            after[kind] = Step(runs, now, takes)
        return StepStates(self.rows, self.device, after), logits

    def select(self, rows: Tensor, kinds: Collection[type]) -> StepStates:
        """Return some rows, in a new order; rows may repeat.

        Args:
            rows: [R] int64 on the device, from 0 to B - 1.
            kinds: The steps that matter to them; the others are left out.
        """
        steps = {
            kind: Step(runs, select(state, rows), takes.index_select(0, rows))
            for kind, (runs, state, takes) in self.steps.items()
            if kind in kinds
        }
        return StepStates(len(rows), self.device, steps)
