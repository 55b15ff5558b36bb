"""The base of penalties on the tokens of a history, and the tensor operations on their logits.

Logits are computed in at least 32 bits and rounded once. Finite logits stay finite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from logitkit.penalties.token_history import HistoryProcessor
from logitkit.protocol.kind import Role
from logitkit.runtime.host_logits import HostLogits, filled

__all__ = ["HistoryPenalty", "filled_places", "finite_tensors"]

S = TypeVar("S", bound=tuple[Any, ...])


class HistoryPenalty(HistoryProcessor[S]):
    """A penalty on the logit of each token in the history; finite logits stay finite.

    Subclasses define `_changed`. Their states have the fields `history` and `penalty`, [B].
    """

    penalty: float

    role = Role.PENALTY

    # Whether the penalty is multiplied by how often the token occurs.
    counts = False

    def _changed(self, given: Any, penalty: Any, where: Callable[..., Any]) -> Any:
        """Return the changed logits.

        Args:
            given: The logits of the tokens, an array or a tensor.
            penalty: The penalty of each.
            where: `np.where` or `torch.where`.
        """
        raise NotImplementedError

    def _by_rows(self, state: Any, logits: Tensor) -> Tensor:
        host, tokens, penalty = HostLogits.of(logits), state.history.tokens.numpy(), state.penalty.numpy()
        there = tokens >= 0
        there[penalty == self._neutral] = False
        row, places = filled(there)
        ids, amount = tokens[places], penalty[row]
        if self.counts:
            pairs, counts = np.unique(np.int64(row) << 32 | ids, return_counts=True)
            row, ids = pairs >> 32, pairs & 0xFFFFFFFF
            amount = penalty[row] * counts.astype(penalty.dtype)
        given = host.read(row, ids)
        with np.errstate(over="ignore"):
            host.write(row, ids, given, self._changed(given, amount.astype(given.dtype), np.where))
        return logits

    def _by_tensors(self, state: Any, logits: Tensor) -> Tensor:
        tokens = state.history.tokens
        if tokens.shape[1] == 0:
            return logits
        ids, some = filled_places(tokens, logits.shape[1])
        wide = torch.promote_types(logits.dtype, torch.float32)
        penalty = torch.where(some, state.penalty[:, None], self._neutral)
        if self.counts:
            penalty = penalty * counts_of(ids, tokens)
        given = logits.gather(1, ids).to(wide)
        changed = self._changed(given, penalty.to(wide), torch.where)
        return logits.scatter_(1, ids, finite_tensors(given, changed, logits.dtype))

    @property
    def _neutral(self) -> float:
        """The penalty that changes nothing."""
        assert self.kind.neutral is not None
        neutral: float = self.kind.neutral["penalty"]
        return neutral


def filled_places(tokens: Tensor, columns: int) -> tuple[Tensor, Tensor]:
    """Return ids that can be gathered and scattered: a place without a token repeats another token of its row.

    Repeated ids are written with the same value. In a row without tokens, all ids are 0, and its logit must not change.

    Args:
        tokens: [B, N] int32, N at least 1; negative numbers, and ids that are not columns, mean none.
        columns: The number of columns of the logits.

    Returns:
        [B, N] int64 ids, and [B, 1] bool, whether the row has a token.
    """
    tokens = torch.where(tokens < columns, tokens, -1)
    some = tokens.amax(1, keepdim=True)
    return torch.where(tokens >= 0, tokens, some.clamp(min=0)).to(torch.int64), some >= 0


def counts_of(ids: Tensor, tokens: Tensor) -> Tensor:
    """Return how often each id occurs among the tokens of its row, [B, M] int64.

    Args:
        ids: [B, M] int64.
        tokens: [B, N] int32, in any order; negative numbers mean none.

    Example:
        >>> counts_of(torch.tensor([[7, 8, 9]]), torch.tensor([[9, 7, 9, -1]])).tolist()
        [[1, 0, 2]]
    """
    ordered = tokens.to(torch.int64).sort(1).values
    return torch.searchsorted(ordered, ids, right=True) - torch.searchsorted(ordered, ids)


def finite_tensors(given: Tensor, changed: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the changed logits in `dtype`; those that were finite in `given` stay finite."""
    most = torch.finfo(dtype).max
    return changed.clamp(given.clamp(max=-most), given.clamp(min=most)).to(dtype)
