"""SuppressAtBegin: some tokens may not be the first of the output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.parameters import Integer, TokenIds
from logitkit.protocol.calls import check_tokens, count_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice
from logitkit.runtime.tensor_logits import ban_tensors
from logitkit.tokens.id_lists import ban_rows, id_tensor

__all__ = ["SuppressAtBegin", "SuppressAtBeginState"]


class SuppressAtBeginState(NamedTuple):
    """The tokens that may not begin the output of each row, and whether it has begun.

    Args:
        ids: [B, N] int32, ascending, padded with -1 at the end.
        left: [B] int64, 1 before the first token of the output, then 0; -1 if the row has ended with one of them.
    """

    ids: Annotated[Tensor, Fill(-1), TokenIds()]
    left: Annotated[Tensor, Integer(-1, 1)]


@dataclass(frozen=True)
class SuppressAtBegin(HostAndDevice[SuppressAtBeginState]):
    """Set the logits of some tokens to -inf at the first token of the output.

    For example, Whisper may begin neither with a space nor with EOS.

    Args:
        ids: Token ids, in any order; an empty list changes nothing.

    Raises:
        ConfigurationError: An id is not an integer from 0 to 2**31 - 1.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> begin = lk.SuppressAtBegin([0, 2])
        >>> context = lk.Context.of([[1]], vocabulary_size=4)
        >>> state = begin.init_state(context)
        >>> begin.process_logits(state, torch.tensor([[1.0, 2.0, 3.0, 4.0]]), context)[1]
        tensor([[-inf, 2., -inf, 4.]])
        >>> begin.process_logits(
        ...     begin.advance(state, torch.tensor([3])), torch.tensor([[1.0, 2.0, 3.0, 4.0]]), context
        ... )[1]
        tensor([[1., 2., 3., 4.]])

    Source: transformers' SuppressTokensAtBeginLogitsProcessor, which returns the same results.
    """

    ids: Sequence[int]

    role = Role.CONSTRAINT
    kind = Kind("suppress_at_begin", {"ids": TokenIds(least=0)}, main="ids", order=22, neutral={"ids": ()})
    may_empty_rows = True

    def init_state(self, context: Context) -> SuppressAtBeginState:
        """Return the initial state of the rows."""
        return SuppressAtBeginState(id_tensor([self.ids] * context.batch_size, context.device), per_row(context, 1))

    def advance(self, state: SuppressAtBeginState, tokens: Tensor) -> SuppressAtBeginState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("SuppressAtBegin", state.left.shape[0], tokens)
        left = (state.left - count_tokens(tokens)).clamp(min=0)
        return state._replace(left=torch.where(state.left < 0, -1, left))

    def advance_until_end(self, state: SuppressAtBeginState, tokens: Tensor, ends: Tensor) -> SuppressAtBeginState:
        """Return the state after `tokens` in a chain, in which some of them, [B] or [B, T] bool, end their rows."""
        after = self.advance(state, tokens)
        each, end = (rows if rows.dim() == 2 else rows[:, None] for rows in (tokens, ends))
        first = (each >= 0) & ((each >= 0).to(torch.int64).cumsum(1) == 1) & (state.left[:, None] > 0)
        listed = (each[:, :, None] == state.ids[:, None]).any(2)
        return after._replace(left=torch.where((first & listed & end).any(1), -1, after.left))

    def finish(self, state: SuppressAtBeginState, rows: Tensor) -> SuppressAtBeginState:
        """Return a state in which some rows, [B] bool, have begun."""
        return state._replace(left=torch.where(rows, 0, state.left))

    def is_dead(self, state: SuppressAtBeginState) -> Tensor:
        """Return [B] bool, whether each row has ended with one of the tokens at once, because another constraint ended it."""
        return state.left < 0

    def _by_rows(self, state: SuppressAtBeginState, logits: Tensor) -> Tensor:
        return ban_rows(torch.where(state.left[:, None] > 0, state.ids, -1), logits)

    def _by_tensors(self, state: SuppressAtBeginState, logits: Tensor) -> Tensor:
        return ban_tensors(torch.where(state.left[:, None] > 0, state.ids, -1), logits)
