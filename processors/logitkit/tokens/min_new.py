"""No end before so many tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.parameters import Integer, TokenIds
from logitkit.parameters.integers import as_integer
from logitkit.protocol.calls import check_tokens, count_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.protocol.state import Fill
from logitkit.tokens.id_lists import ban, id_tensor
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["MinNewState", "MinNewTokens"]


class MinNewState(NamedTuple):
    """What a row must still say before it may end.

    Args:
        eos_ids: [B, N] int32, rising, padded with -1 at the end.
        left: [B] int64, tokens until the row may end; 0 for one that may, -1 for one that has ended before it might.
    """

    eos_ids: Annotated[Tensor, Fill(-1), TokenIds()]
    left: Annotated[Tensor, Integer(-1)]


@dataclass(frozen=True)
class MinNewTokens(Described):
    """Keep EOS at -inf until a row has so many tokens of output, or a `chain` has ended it all the same.

    A row that may say nothing but EOS, because a constraint before it is complete, is left without any token, unless they are
    in a `chain`, which then ends it.

    Args:
        n: Tokens of output, from 0 (which changes nothing) to 2**31 - 1. The prompt does not count.
        eos_ids: Id or ids that end a row, at least one.

    Raises:
        ConfigurationError: `n` or an id is no integer of its range, or there are no ids.

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

    Source: transformers' MinNewTokensLengthLogitsProcessor, whose results these are.
    """

    n: int
    eos_ids: Sequence[int] | int

    role = Role.CONSTRAINT
    kind = Kind("min_new_tokens", {"n": Integer(0), "eos_ids": TokenIds()}, main="n", order=30)
    may_empty_rows = True

    def __post_init__(self) -> None:
        if as_integer(self.eos_ids) is not None:
            object.__setattr__(self, "eos_ids", [self.eos_ids])
        super().__post_init__()

    @classmethod
    def configured(cls, n: int, vocabulary: Vocabulary, eos_ids: Sequence[int] | None = None) -> MinNewTokens:
        """Make one of a configuration, which may leave out the EOS ids: those of the vocabulary."""
        return cls(n, vocabulary.eos_ids if eos_ids is None else eos_ids)

    @classmethod
    def neutral_state(cls, context: Context) -> MinNewState:
        """Return the state of rows that may end."""
        left = torch.zeros(context.batch_size, dtype=torch.int64, device=context.device)
        return MinNewState(id_tensor([()] * context.batch_size, context.device), left)

    def init_state(self, context: Context) -> MinNewState:
        """Return the state of rows that have their prompt."""
        rows = context.batch_size
        left = torch.full((rows,), self.n, dtype=torch.int64, device=context.device)
        return MinNewState(id_tensor([self.eos_ids] * rows, context.device), left)  # type: ignore[list-item]

    def advance(self, state: MinNewState, tokens: Tensor) -> MinNewState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("MinNewTokens", state.left.shape[0], tokens)
        left = (state.left - count_tokens(tokens)).clamp(min=0)
        return state._replace(left=torch.where(state.left < 0, -1, left))

    def advance_until_end(self, state: MinNewState, tokens: Tensor, ends: Tensor) -> MinNewState:
        """Return the state after `tokens`, as a part of a chain in which some of them end their rows: [B] or [B, T] bool."""
        after = self.advance(state, tokens)
        real = ((tokens if tokens.dim() == 2 else tokens[:, None]) >= 0).to(torch.int64)
        held = state.left[:, None] - real.cumsum(1) + real > 0
        return after._replace(left=torch.where((held & ends.reshape(real.shape)).any(1), -1, after.left))

    def finish(self, state: MinNewState, rows: Tensor) -> MinNewState:
        """Return a state in which some rows, [B] bool, may end."""
        return state._replace(left=torch.where(rows, 0, state.left))

    def is_dead(self, state: MinNewState) -> Tensor:
        """Return [B] bool: whether each row has ended before it might, as another constraint may have made it do."""
        return state.left < 0

    def process_logits(self, state: MinNewState, logits: Tensor, context: Context) -> tuple[MinNewState, Tensor]:
        """Set the logits of EOS to -inf, in place, in rows that may not end yet.

        Raises:
            VocabularyError: An id that is held back is none of the logits' columns (on the CPU).
        """
        logits = own_rows("MinNewTokens", state.left.shape[0], logits)
        return state, ban(torch.where(state.left[:, None] > 0, state.eos_ids, -1), logits)
