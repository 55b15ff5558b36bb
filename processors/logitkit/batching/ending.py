"""End rows without a legal token, as a chain does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.protocol.calls import by_tensors, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.processor import Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import is_empty
from logitkit.runtime.logit_arrays import as_array, drop_nan
from logitkit.runtime.tensor_logits import Places
from logitkit.tokens.id_lists import id_tensor, listed_rows, rising

__all__ = ["Ending", "EndingState"]


class EndingState(NamedTuple):
    """The EOS ids of each row.

    Args:
        eos_ids: [B, N] int32, ascending, padded with -1 at the end. A row without any is never ended.
    """

    eos_ids: Annotated[Tensor, Fill(-1)]


@dataclass(frozen=True)
class Ending:
    """Give EOS the logit 0 in rows without a legal token.

    Args:
        eos_ids: The ids that end a row.
    """

    eos_ids: Sequence[int]

    role = Role.CONSTRAINT
    may_empty_rows = False

    @classmethod
    def neutral_state(cls, context: Context) -> EndingState:
        """Return the state of rows that are never ended."""
        return cls(()).init_state(context)

    def init_state(self, context: Context) -> EndingState:
        """Return the state of rows after their prompts."""
        return EndingState(id_tensor([rising(self.eos_ids)] * context.batch_size, context.device))

    def advance(self, state: EndingState, tokens: Tensor) -> EndingState:
        """Return the state, which does not change."""
        return state

    def process_logits(self, state: EndingState, logits: Tensor, context: Context) -> tuple[EndingState, Tensor]:
        """End the rows in which all logits are -inf or NaN; on the CPU in place."""
        logits = own_rows("Ending", state.eos_ids.shape[0], logits)
        if state.eos_ids.shape[1] == 0:
            return state, logits
        if by_tensors(logits):
            places = Places.of(state.eos_ids, logits.shape[1])
            ends = ~(logits > -torch.inf).any(1, keepdim=True) & places.some
            logits = torch.where(ends, -torch.inf, logits)
            kept = logits.gather(1, places.at)
            return state, logits.scatter_(1, places.at, torch.where(ends, 0.0, kept))
        array, never, zero = as_array(logits)
        for row, ids in listed_rows(state.eos_ids):
            drop_nan(array[row], never)
            if is_empty(array[row], never):
                array[row, ids] = zero
        return state, logits
