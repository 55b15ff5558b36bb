"""BanTokens: never allow some tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

from torch import Tensor

from logitkit.parameters import TokenIds
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice
from logitkit.runtime.tensor_logits import ban_tensors
from logitkit.tokens.id_lists import ban_rows, id_tensor

if TYPE_CHECKING:
    from logitkit.kernels.joined_lists import TokenList

__all__ = ["BanState", "BanTokens"]


class BanState(NamedTuple):
    """The tokens that each row bans.

    Args:
        ids: [B, N] int32, ascending, padded with -1 at the end.
    """

    ids: Annotated[Tensor, Fill(-1), TokenIds()]


@dataclass(frozen=True)
class BanTokens(HostAndDevice[BanState]):
    """Set the logits of some tokens to -inf.

    Args:
        ids: Token ids, in any order; an empty list changes nothing.

    Raises:
        ConfigurationError: An id is not an integer from 0 to 2**31 - 1.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> ban = lk.BanTokens([0, 2])
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> ban.process_logits(ban.init_state(context), torch.tensor([[1.0, 2.0, 3.0, 4.0]]), context)[1]
        tensor([[-inf, 2., -inf, 4.]])

    Source: transformers' SuppressTokensLogitsProcessor, which returns the same results.
    """

    ids: Sequence[int]

    role = Role.CONSTRAINT
    kind = Kind("ban_tokens", {"ids": TokenIds(least=0)}, main="ids", order=20, neutral={"ids": ()})
    may_empty_rows = True

    def init_state(self, context: Context) -> BanState:
        """Return the initial state of the rows."""
        return BanState(id_tensor([self.ids] * context.batch_size, context.device))

    def _by_rows(self, state: BanState, logits: Tensor) -> Tensor:
        return ban_rows(state.ids, logits)

    def _by_kernel(self, state: BanState, logits: Tensor) -> bool:
        from logitkit.kernels.listed_step import Change, listed_step

        return listed_step(Change.BAN, state.ids, logits)

    def _stage(self, state: BanState) -> TokenList:
        from logitkit.kernels.joined_lists import TokenList
        from logitkit.kernels.listed_step import Change

        return TokenList(Change.BAN, state.ids)

    def _by_tensors(self, state: BanState, logits: Tensor) -> Tensor:
        return ban_tensors(state.ids, logits)
