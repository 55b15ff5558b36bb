"""No end before so many tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from torch import Tensor

from logitkit.context import Context
from logitkit.errors import ConfigurationError
from logitkit.integers import as_integer
from logitkit.processor import Role, check_tokens, count_tokens, own_rows
from logitkit.state import Fill
from logitkit.tokens.id_lists import ban, checked_ids, id_tensor, problem_of, rising

__all__ = ["MinNewState", "MinNewTokens"]

LONGEST = 2**31 - 1


class MinNewState(NamedTuple):
    """What a row must still say before it may end.

    Args:
        eos_ids: [B, N] int32, rising, padded with -1 at the end.
        left: [B] int64, tokens until the row may end; 0 for one that may.
    """

    eos_ids: Annotated[Tensor, Fill(-1)]
    left: Tensor

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        return "a number of tokens is below 0" if bool((self.left < 0).any()) else problem_of(self.eos_ids)


@dataclass(frozen=True)
class MinNewTokens:
    """Keep EOS at -inf until a row has so many tokens of output.

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

    def __post_init__(self) -> None:
        n = as_integer(self.n)
        if n is None or not 0 <= n <= LONGEST:
            raise ConfigurationError(f"n is {self.n!r}; allowed are integers from 0 to {LONGEST}")
        object.__setattr__(self, "n", n)
        single = as_integer(self.eos_ids) is not None
        ids = rising(checked_ids("eos_ids", [self.eos_ids] if single else self.eos_ids))
        if not ids:
            raise ConfigurationError("eos_ids is empty; give at least one id that ends a row")
        object.__setattr__(self, "eos_ids", ids)

    def init_state(self, context: Context) -> MinNewState:
        """Return the state of rows that have their prompt."""
        rows = context.batch_size
        left = torch.full((rows,), self.n, dtype=torch.int64, device=context.device)
        return MinNewState(id_tensor([self.eos_ids] * rows, context.device), left)  # type: ignore[list-item]

    def advance(self, state: MinNewState, tokens: Tensor) -> MinNewState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("MinNewTokens", state.left.shape[0], tokens)
        return state._replace(left=(state.left - count_tokens(tokens)).clamp(min=0))

    def process_logits(self, state: MinNewState, logits: Tensor, context: Context) -> tuple[MinNewState, Tensor]:
        """Set the logits of EOS to -inf, in place, in rows that may not end yet.

        Raises:
            VocabularyError: An id that is held back is none of the logits' columns (on the CPU).
        """
        logits = own_rows("MinNewTokens", state.left.shape[0], logits)
        return state, ban(torch.where(state.left[:, None] > 0, state.eos_ids, -1), logits)
