"""Rows that constraints leave nothing end, as they do in a chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.automata.row_mask import as_array
from logitkit.context import Context
from logitkit.processor import Role, own_rows
from logitkit.state import Fill
from logitkit.tensor_path import by_tensors
from logitkit.tokens.id_lists import Places, counts_of, id_tensor, rising

__all__ = ["Ending", "EndingState"]

# Most rows have something left among so many ids.
PROBED = 64


class EndingState(NamedTuple):
    """How each row ends.

    Args:
        eos_ids: [B, N] int32, rising, padded with -1 at the end. A row without any does not.
    """

    eos_ids: Annotated[Tensor, Fill(-1)]


@dataclass(frozen=True)
class Ending:
    """Give EOS the logit 0 in rows that have nothing left.

    Args:
        eos_ids: Ids that end a row.
    """

    eos_ids: Sequence[int]

    role = Role.CONSTRAINT

    def init_state(self, context: Context) -> EndingState:
        """Return the state of rows that have their prompt."""
        return EndingState(id_tensor([rising(self.eos_ids)] * context.batch_size, context.device))

    def advance(self, state: EndingState, tokens: Tensor) -> EndingState:
        """Return the state, which stays as it is."""
        return state

    def process_logits(self, state: EndingState, logits: Tensor, context: Context) -> tuple[EndingState, Tensor]:
        """End the rows in which all logits are at -inf, in place."""
        logits = own_rows("Ending", state.eos_ids.shape[0], logits)
        if state.eos_ids.shape[1] == 0:
            return state, logits
        if by_tensors(logits):
            places = Places.of(state.eos_ids, logits.shape[1])
            ends = (logits.amax(1, keepdim=True) == -torch.inf) & places.some
            kept = logits.gather(1, places.at)
            return state, logits.scatter_(1, places.at, torch.where(ends, 0.0, kept))
        array, never, zero = as_array(logits)
        lists = state.eos_ids.numpy()
        for row, count in enumerate(counts_of(lists)):
            if count and (array[row, :PROBED] == never).all() and (array[row] == never).all():
                array[row, lists[row, :count]] = zero
        return state, logits
