"""Some tokens only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.parameters import TokenIds
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostLogits
from logitkit.tokens.id_lists import Places, id_tensor, listed_rows

__all__ = ["AllowState", "AllowTokens"]


class AllowState(NamedTuple):
    """What each row may say.

    Args:
        ids: [B, N] int32, rising, padded with -1 at the end. A row without any is free.
    """

    ids: Annotated[Tensor, Fill(-1), TokenIds()]


@dataclass(frozen=True)
class AllowTokens(Described):
    """Set the logits of all tokens but some to -inf.

    A row whose allowed tokens are all at -inf already is left without any, unless it is in a `chain` that knows how to end.

    Args:
        ids: Token ids, at least one, in any order. EOS is allowed only if it is among them.

    Raises:
        ConfigurationError: There are no ids, or one is no integer from 0 to 2**31 - 1.

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
        """Return the state of rows that are free."""
        return AllowState(id_tensor([()] * context.batch_size, context.device))

    def init_state(self, context: Context) -> AllowState:
        """Return the state of rows that have their prompt."""
        return AllowState(id_tensor([self.ids] * context.batch_size, context.device))

    def advance(self, state: AllowState, tokens: Tensor) -> AllowState:
        """Return the state, which stays as it is."""
        check_tokens("AllowTokens", state.ids.shape[0], tokens)
        return state

    def process_logits(self, state: AllowState, logits: Tensor, context: Context) -> tuple[AllowState, Tensor]:
        """Set all logits but those of the ids to -inf, in place where that is quicker.

        Raises:
            VocabularyError: An id is none of the logits' columns (on the CPU).
        """
        logits = own_rows("AllowTokens", state.ids.shape[0], logits)
        if state.ids.shape[1] == 0:
            return state, logits
        if by_tensors(logits):
            return state, _by_tensors(state.ids, logits)
        host = HostLogits.of(logits)
        for row, ids in listed_rows(state.ids):
            host.keep(row, ids)
        return state, logits


def _by_tensors(ids: Tensor, logits: Tensor) -> Tensor:
    places = Places.of(ids, logits.shape[1])
    kept = logits.gather(1, places.at)
    only = torch.full_like(logits, -torch.inf).scatter_(1, places.at, kept)
    # A row whose ids are none of the columns is allowed nothing; only one without ids is free.
    return torch.where(ids[:, :1] >= 0, torch.where(places.some, only, -torch.inf), logits)
