"""AllowTokens: allow only some tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.parameters import TokenIds
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice, HostLogits
from logitkit.runtime.tensor_logits import Places
from logitkit.tokens.id_lists import id_tensor, listed_rows

__all__ = ["AllowState", "AllowTokens"]


class AllowState(NamedTuple):
    """The tokens that each row allows.

    Args:
        ids: [B, N] int32, ascending, padded with -1 at the end. A row without ids allows all tokens.
    """

    ids: Annotated[Tensor, Fill(-1), TokenIds()]


@dataclass(frozen=True)
class AllowTokens(HostAndDevice[AllowState]):
    """Set the logits of all tokens except some to -inf.

    If all allowed tokens of a row are at -inf already, no token is left, unless a `chain` ends the row.

    Args:
        ids: At least one token id, in any order. EOS is allowed only if it is one of them.

    Raises:
        ConfigurationError: There are no ids, or one is not an integer from 0 to 2**31 - 1.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> allow = lk.AllowTokens([0, 2])
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> allow.process_logits(allow.init_state(context), torch.tensor([[1.0, 2.0, 3.0, 4.0]]), context)[1]
        tensor([[1., -inf, 3., -inf]])

    Source: vLLM's `allowed_token_ids`.
    """

    ids: Sequence[int]

    role = Role.CONSTRAINT
    kind = Kind("allow_tokens", {"ids": TokenIds()}, main="ids", order=10)
    may_empty_rows = True

    @classmethod
    def neutral_state(cls, context: Context) -> AllowState:
        """Return the state of rows that allow all tokens."""
        return AllowState(id_tensor([()] * context.batch_size, context.device))

    def init_state(self, context: Context) -> AllowState:
        """Return the initial state of the rows."""
        return AllowState(id_tensor([self.ids] * context.batch_size, context.device))

    def _by_rows(self, state: AllowState, logits: Tensor) -> Tensor:
        host = HostLogits.of(logits)
        for row, ids in listed_rows(state.ids):
            host.keep(row, ids)
        return logits

    def _by_tensors(self, state: AllowState, logits: Tensor) -> Tensor:
        if state.ids.shape[1] == 0:
            return logits
        places = Places.of(state.ids, logits.shape[1])
        kept = logits.gather(1, places.at)
        only = torch.full_like(logits, -torch.inf).scatter_(1, places.at, kept)
        # If none of a row's ids are columns, it allows nothing. Only a row without ids allows all tokens.
        return torch.where(state.ids[:, :1] >= 0, torch.where(places.some, only, -torch.inf), logits)
