"""ForcedTokens: the output begins with given tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.parameters import Integer, ListOf, TokenId
from logitkit.parameters.forms import elements
from logitkit.parameters.token_ids import checked_ids
from logitkit.protocol.calls import check_tokens, count_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostAndDevice, HostLogits
from logitkit.tokens.id_lists import id_tensor, is_any

__all__ = ["ForcedState", "ForcedTokens"]


class ForcedState(NamedTuple):
    """The tokens that each row begins with, and how many it has.

    Args:
        ids: [B, N] int32, padded with -1 at the end.
        position: [B] int64, output tokens so far; -1 for a row that ended before its ids were complete: its ids are then EOS.
    """

    ids: Annotated[Tensor, Fill(-1)]
    position: Annotated[Tensor, Integer(-1, 2**63 - 1)]

    def problem(self) -> str | None:
        """Describe an impossible value in a state read from a file, or return None."""
        there = self.ids >= 0
        after_none = there[:, 1:] & ~there[:, :-1]
        return "a token id is below -1, or comes after -1" if bool((self.ids < -1).any() | after_none.any()) else None


@dataclass(frozen=True)
class ForcedTokens(HostAndDevice[ForcedState]):
    """Force the first tokens of the output; after them, every token is allowed.

    Only the position counts. An EOS among the ids does not end the row, not even for other constraints of a `chain`. A row whose
    output differs so far, such as a draft, continues with the remaining ids. In a `chain`, an EOS in place of another
    id ends the row. A forced token keeps its logit if it is finite, and gets 0 otherwise: it overrides masks before it, and later
    masks in a `chain` override it.

    Args:
        ids: Token ids for every row, or one list per row of the batch, of any lengths. An empty list changes nothing.

    Raises:
        ConfigurationError: An id is not an integer from 0 to 2**31 - 1, or lists and ids are mixed.
        BatchMismatch: On use, if the number of lists is not the number of rows.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> forced = lk.ForcedTokens([[2, 0], [1]])
        >>> context = lk.Context.of([[], []], vocabulary_size=3)
        >>> state = forced.advance(forced.init_state(context), torch.tensor([2, 1]))
        >>> forced.process_logits(state, torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), context)[1]
        tensor([[1., -inf, -inf],
                [1., 2., 3.]])

    Source: transformers' ForcedBOSTokenLogitsProcessor, for any number of tokens.
    """

    ids: Sequence[int] | Sequence[Sequence[int]]

    role = Role.CONSTRAINT
    kind = Kind("forced_tokens", {"ids": ListOf(TokenId(), 0)}, main="ids", order=40, neutral={"ids": ()})
    may_empty_rows = False
    # A forced token overrides masks before it.
    only_masks = False

    def __post_init__(self) -> None:
        given = elements("ids", self.ids, "token ids, or one for each row")
        lists = [_is_list(one) for one in given]
        if any(lists) and not all(lists):
            raise ConfigurationError(f"ids is {self.ids!r}; give token ids or lists of them, not both")
        checked = tuple(checked_ids("ids", one) for one in given) if any(lists) else checked_ids("ids", given)
        object.__setattr__(self, "ids", checked)

    @property
    def batch_size(self) -> int | None:
        """The number of rows that it is made for, or None for any number."""
        return len(self.ids) if self.ids and isinstance(self.ids[0], tuple) else None

    def init_state(self, context: Context) -> ForcedState:
        """Return the initial state of the rows."""
        rows, mine = context.batch_size, self.batch_size
        if mine not in (None, rows):
            raise BatchMismatch(
                f"ForcedTokens has {mine} lists of ids for a batch of {rows} rows; give one list for each row, or a single "
                "list of ids for all"
            )
        lists = [self.ids] * rows if mine is None else self.ids
        return ForcedState(id_tensor(lists, context.device), per_row(context, 0))  # type: ignore[arg-type]

    def advance(self, state: ForcedState, tokens: Tensor) -> ForcedState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("ForcedTokens", state.position.shape[0], tokens)
        position = state.position
        return state._replace(position=torch.where(position < 0, position, position + count_tokens(tokens)))

    def advance_until_end(self, state: ForcedState, tokens: Tensor, ends: Tensor) -> ForcedState:
        """Return the state after `tokens` in a chain, in which some of them, [B] or [B, T] bool, end their rows."""
        after = self.advance(state, tokens)
        if state.ids.shape[1] == 0:
            return after
        too_early = ends.reshape(len(ends), -1) & (_forced_at(state, tokens) >= 0)
        ended = torch.where(too_early, tokens.reshape(len(tokens), -1), -1).amax(1)
        ids = torch.where(ended[:, None] < 0, after.ids, ended[:, None].to(after.ids.dtype))
        return ForcedState(ids, torch.where(ended < 0, after.position, -1))

    def forces(self, state: ForcedState, tokens: Tensor, ids: Sequence[int]) -> Tensor:
        """Return which tokens are forced and one of some ids, bool in the shape of the tokens."""
        if state.ids.shape[1] == 0 or not ids:
            return torch.zeros_like(tokens, dtype=torch.bool)
        return (_forced_at(state, tokens).reshape(tokens.shape) == tokens) & is_any(tokens, ids)

    def finish(self, state: ForcedState, rows: Tensor) -> ForcedState:
        """Return a state in which no more tokens are forced in some rows, [B] bool."""
        return state._replace(position=torch.where(rows, state.ids.shape[1], state.position))

    def is_dead(self, state: ForcedState) -> Tensor:
        """Return [B] bool, whether each row has ended, in a chain, in place of a forced id."""
        return state.position < 0

    def _by_rows(self, state: ForcedState, logits: Tensor) -> Tensor:
        if state.ids.shape[1] == 0:
            return logits
        host = HostLogits.of(logits)
        for row, token in enumerate(_next(state)[:, 0].tolist()):
            if token >= 0:
                host.keep(row, np.array([token]))
                if not bool(logits[row, token].isfinite()):
                    logits[row, token] = 0
        return logits

    def _by_tensors(self, state: ForcedState, logits: Tensor) -> Tensor:
        if state.ids.shape[1] == 0:
            return logits
        following, columns = _next(state), logits.shape[1]
        at = following.clamp(0, columns - 1).to(torch.int64)
        value = logits.gather(1, at)
        value = torch.where(value.isfinite(), value, 0.0)
        only = torch.full_like(logits, -torch.inf).scatter_(1, at, value)
        return torch.where((following >= 0) & (following < columns), only, logits)


def _is_list(given: object) -> bool:
    # A tensor without dimensions has __iter__, but is a single id.
    return isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0


def _forced_at(state: ForcedState, tokens: Tensor) -> Tensor:
    """Return the id that is forced in place of each token, [B, T], -1 for none."""
    real = tokens.reshape(len(tokens), -1) >= 0
    at = state.position[:, None] + real.to(torch.int64).cumsum(1) - 1
    width = state.ids.shape[1]
    return torch.where((at >= 0) & (at < width) & real, state.ids.gather(1, at.clamp(0, width - 1)), -1)


def _next(state: ForcedState) -> Tensor:
    """Return the id that each row must have next, [B, 1], -1 for none."""
    width = state.ids.shape[1]
    place = state.position.clamp(0, width - 1)[:, None]
    return torch.where(state.position[:, None] < width, state.ids.gather(1, place), -1)
