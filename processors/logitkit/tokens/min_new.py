"""MinNewTokens: no EOS before a number of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, NamedTuple

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
from logitkit.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    from typing import Self

__all__ = ["HeldBackEos", "MinNewState", "MinNewTokens"]


class MinNewState(NamedTuple):
    """The number of tokens left before each row may end.

    Args:
        eos_ids: [B, N] int32, ascending, padded with -1 at the end.
        left: [B] int64, the number of tokens before the row may end; 0 if it may, -1 if it has ended too early.
    """

    eos_ids: Annotated[Tensor, Fill(-1), TokenIds()]
    left: Annotated[Tensor, Integer(-1)]


class HeldBackEos(HostAndDevice[MinNewState]):
    """The base of processors that keep EOS at -inf until a row has enough tokens."""

    n: int
    eos_ids: Sequence[int] | int

    role = Role.CONSTRAINT
    may_empty_rows = True

    @classmethod
    def neutral_state(cls, context: Context) -> MinNewState:
        """Return the state of rows that may end."""
        return MinNewState(id_tensor([()] * context.batch_size, context.device), per_row(context, 0))

    def init_state(self, context: Context) -> MinNewState:
        """Return the initial state of the rows."""
        ids = id_tensor([self.eos_ids] * context.batch_size, context.device)  # type: ignore[list-item]
        return MinNewState(ids, self._needed(context))

    def _needed(self, context: Context) -> Tensor:
        """Return [B] int64, the number of tokens after which each row may end."""
        raise NotImplementedError

    def advance(self, state: MinNewState, tokens: Tensor) -> MinNewState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens(type(self).__name__, state.left.shape[0], tokens)
        left = (state.left - count_tokens(tokens)).clamp(min=0)
        return state._replace(left=torch.where(state.left < 0, -1, left))

    def advance_until_end(self, state: MinNewState, tokens: Tensor, ends: Tensor) -> MinNewState:
        """Return the state after `tokens` in a chain, in which some of them, [B] or [B, T] bool, end their rows."""
        after = self.advance(state, tokens)
        real = ((tokens if tokens.dim() == 2 else tokens[:, None]) >= 0).to(torch.int64)
        held = state.left[:, None] - real.cumsum(1) + real > 0
        return after._replace(left=torch.where((held & ends.reshape(real.shape)).any(1), -1, after.left))

    def finish(self, state: MinNewState, rows: Tensor) -> MinNewState:
        """Return a state in which some rows, [B] bool, may end."""
        return state._replace(left=torch.where(rows, 0, state.left))

    def is_dead(self, state: MinNewState) -> Tensor:
        """Return [B] bool, whether each row has ended too early, because another constraint ended it."""
        return state.left < 0

    def _by_rows(self, state: MinNewState, logits: Tensor) -> Tensor:
        return ban_rows(torch.where(state.left[:, None] > 0, state.eos_ids, -1), logits)

    def _by_tensors(self, state: MinNewState, logits: Tensor) -> Tensor:
        return ban_tensors(torch.where(state.left[:, None] > 0, state.eos_ids, -1), logits)


@dataclass(frozen=True)
class MinNewTokens(HeldBackEos):
    """Keep EOS at -inf until a row has a number of output tokens, or until a `chain` ends it earlier.

    If a constraint is complete and allows nothing but EOS, no token is left in the row; in a `chain`, the row then ends.

    Args:
        n: The minimum number of output tokens, from 0 (which changes nothing) to 2**31 - 1. The prompt does not count.
        eos_ids: The id or ids that end a row, at least one.

    Raises:
        ConfigurationError: `n` or an id is not an integer in range, or there are no ids.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> longer = lk.MinNewTokens(1, eos_ids=[3])
        >>> context = lk.Context.of([[0, 1]], vocabulary_size=4)
        >>> state = longer.init_state(context)
        >>> longer.process_logits(state, torch.ones(1, 4), context)[1]
        tensor([[1., 1., 1., -inf]])
        >>> longer.process_logits(longer.advance(state, torch.tensor([2])), torch.ones(1, 4), context)[1]
        tensor([[1., 1., 1., 1.]])

    Source: transformers' MinNewTokensLengthLogitsProcessor, which returns the same results.
    """

    n: int
    eos_ids: Sequence[int] | int

    kind = Kind("min_new_tokens", {"n": Integer(0), "eos_ids": TokenIds(alone=True)}, main="n", order=30)

    @classmethod
    def configured(cls, n: int, vocabulary: Vocabulary, eos_ids: Sequence[int] | None = None) -> Self:
        """Create one from a configuration, which may leave out the EOS ids: then they are those of the vocabulary."""
        return cls(n, vocabulary.eos_ids if eos_ids is None else eos_ids)

    @classmethod
    def neutral_state(cls, context: Context) -> MinNewState:
        """Return the state of rows that may end."""
        return super().neutral_state(context)

    # The base has all methods of the protocol: a class with one of its own would not keep what the base declares.
    def _needed(self, context: Context) -> Tensor:
        return per_row(context, self.n)
