"""Some tokens never."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from torch import Tensor

from logitkit.parameters import TokenIds
from logitkit.protocol.calls import check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.protocol.state import Fill
from logitkit.tokens.id_lists import ban, id_tensor

__all__ = ["BanState", "BanTokens"]


class BanState(NamedTuple):
    """What each row may not say.

    Args:
        ids: [B, N] int32, rising, padded with -1 at the end. A row without any is free.
    """

    ids: Annotated[Tensor, Fill(-1), TokenIds()]


@dataclass(frozen=True)
class BanTokens(Described):
    """Set the logits of some tokens to -inf.

    Args:
        ids: Token ids, in any order; none changes nothing.

    Raises:
        ConfigurationError: An id is no integer from 0 to 2**31 - 1.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> ban = lk.BanTokens([0, 2])
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> ban.process_logits(ban.init_state(context), torch.tensor([[1.0, 2.0, 3.0, 4.0]]), context)[1]
        tensor([[-inf, 2., -inf, 4.]])

    Source: transformers' SuppressTokensLogitsProcessor, whose results these are.
    """

    ids: Sequence[int]

    role = Role.CONSTRAINT
    kind = Kind("ban_tokens", {"ids": TokenIds(least=0)}, main="ids", order=20, neutral={"ids": ()})
    may_empty_rows = True

    def init_state(self, context: Context) -> BanState:
        """Return the state of rows that have their prompt."""
        return BanState(id_tensor([self.ids] * context.batch_size, context.device))

    def advance(self, state: BanState, tokens: Tensor) -> BanState:
        """Return the state, which stays as it is."""
        check_tokens("BanTokens", state.ids.shape[0], tokens)
        return state

    def process_logits(self, state: BanState, logits: Tensor, context: Context) -> tuple[BanState, Tensor]:
        """Set the logits of the ids to -inf, in place.

        Raises:
            VocabularyError: An id is none of the logits' columns (on the CPU).
        """
        return state, ban(state.ids, own_rows("BanTokens", state.ids.shape[0], logits))
