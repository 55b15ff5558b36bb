"""The output begins with given tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.automata.row_mask import as_array, constant_row
from logitkit.context import Context
from logitkit.errors import BatchMismatch, ConfigurationError
from logitkit.processor import Role, check_tokens, count_tokens, own_rows
from logitkit.state import Fill
from logitkit.tensor_path import by_tensors
from logitkit.tokens.id_lists import checked_ids, id_tensor, outside

__all__ = ["ForcedState", "ForcedTokens"]


class ForcedState(NamedTuple):
    """What each row begins with, and how far it is.

    Args:
        ids: [B, N] int32, padded with -1 at the end.
        position: [B] int64, tokens of output so far.
    """

    ids: Annotated[Tensor, Fill(-1)]
    position: Tensor

    def problem(self) -> str | None:
        """Say what is impossible about values read from a file, or return None."""
        if bool((self.position < 0).any()):
            return "a position is below 0"
        there = self.ids >= 0
        behind_none = there[:, 1:] & ~there[:, :-1]
        return "a token id is below -1, or behind none" if bool((self.ids < -1).any() | behind_none.any()) else None


@dataclass(frozen=True)
class ForcedTokens:
    """Begin the output with given tokens, whatever they are; after them everything is free.

    What is forced is a matter of position alone: EOS inside the ids does not finish a row, nor does it for the other
    constraints of a `chain`, and a row whose output so far is another (a draft) goes on with the ids that are left. A
    forced token keeps its logit if that is finite and is at 0 if not, so that it wins over masks before it; masks
    behind it, in a `chain`, win over it.

    Args:
        ids: Token ids, for every row; or one list for each row of the batch, of any lengths. None change nothing.

    Raises:
        ConfigurationError: An id is no integer from 0 to 2**31 - 1, or lists and ids are mixed.
        BatchMismatch: On use, when there are lists, but not as many as rows.

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

    def __post_init__(self) -> None:
        if isinstance(self.ids, str | bytes) or not isinstance(self.ids, Iterable):
            raise ConfigurationError(f"ids is {self.ids!r}; give a list of token ids, or one for each row")
        given = list(self.ids)
        lists = [_is_list(one) for one in given]
        if any(lists) and not all(lists):
            raise ConfigurationError(f"ids is {self.ids!r}; give token ids or lists of them, not both")
        checked = tuple(checked_ids("ids", one) for one in given) if any(lists) else checked_ids("ids", given)
        object.__setattr__(self, "ids", checked)

    @property
    def batch_size(self) -> int | None:
        """The number of rows that it is for, or None for any."""
        return len(self.ids) if self.ids and isinstance(self.ids[0], tuple) else None

    def init_state(self, context: Context) -> ForcedState:
        """Return the state of rows that have their prompt."""
        rows, mine = context.batch_size, self.batch_size
        if mine not in (None, rows):
            raise BatchMismatch(
                f"ForcedTokens has {mine} lists of ids for a batch of {rows} rows; give one list for each row, or a single "
                "list of ids for all"
            )
        lists = [self.ids] * rows if mine is None else self.ids
        return ForcedState(
            id_tensor(lists, context.device),  # type: ignore[arg-type]
            torch.zeros(rows, dtype=torch.int64, device=context.device),
        )

    def advance(self, state: ForcedState, tokens: Tensor) -> ForcedState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("ForcedTokens", state.position.shape[0], tokens)
        return state._replace(position=state.position + count_tokens(tokens))

    def without_ends(self, state: ForcedState, tokens: Tensor, eos_ids: Sequence[int]) -> Tensor:
        """Return the tokens, with none (-1) for each EOS that is forced, which ends nothing: a chain hides it."""
        if state.ids.shape[1] == 0 or not eos_ids:
            return tokens
        columns = tokens if tokens.dim() == 2 else tokens[:, None]
        before = (columns >= 0).to(torch.int64).cumsum(1) - 1
        ends = columns == eos_ids[0]
        for other in eos_ids[1:]:
            ends = ends | (columns == other)
        forced = state.position[:, None] + before < (state.ids >= 0).sum(1, keepdim=True)
        return torch.where(ends & forced, -1, columns).reshape(tokens.shape)

    def process_logits(self, state: ForcedState, logits: Tensor, context: Context) -> tuple[ForcedState, Tensor]:
        """Leave rows that are not through nothing but the next of their ids.

        Raises:
            VocabularyError: The next id is none of the logits' columns (on the CPU).
        """
        logits = own_rows("ForcedTokens", state.position.shape[0], logits)
        width = state.ids.shape[1]
        if width == 0:
            return state, logits
        place = state.position.clamp(max=width - 1)[:, None]
        following = torch.where(state.position[:, None] < width, state.ids.gather(1, place), -1)
        return state, (_by_tensors if by_tensors(logits) else _by_rows)(following, logits)


def _is_list(given: object) -> bool:
    # A tensor without dimensions has __iter__, but is one id.
    return isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0


def _by_tensors(following: Tensor, logits: Tensor) -> Tensor:
    columns = logits.shape[1]
    at = following.clamp(0, columns - 1).to(torch.int64)
    value = logits.gather(1, at)
    value = torch.where(value.isfinite(), value, 0.0)
    only = torch.full_like(logits, -torch.inf).scatter_(1, at, value)
    return torch.where((following >= 0) & (following < columns), only, logits)


def _by_rows(following: Tensor, logits: Tensor) -> Tensor:
    array, never, zero = as_array(logits)
    for row, token in enumerate(following[:, 0].tolist()):
        if token < 0:
            continue
        line = array[row]
        if token >= len(line):
            raise outside(row, np.array(token), len(line))
        value = line[token].copy() if bool(logits[row, token].isfinite()) else zero
        line[:] = constant_row(len(line), line.dtype, never)
        line[token] = value
    return logits
