"""Tensor operations on the logits of the tokens in a history.

Logits are computed in at least 32 bits and rounded once. Finite logits stay finite.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["counts_of", "filled_places", "finite_tensors"]


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
