"""How often each token occurs in a history, without a counter for every token of the vocabulary."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["counts_of"]


def counts_of(ids: Tensor, tokens: Tensor) -> Tensor:
    """Count some ids among the tokens of their row.

    Args:
        ids: [B, M] int64.
        tokens: [B, N] int32, in any order; those below 0 are none.

    Returns:
        [B, M] int64.

    Example:
        >>> counts_of(torch.tensor([[7, 8, 9]]), torch.tensor([[9, 7, 9, -1]])).tolist()
        [[1, 0, 2]]
    """
    ordered = tokens.to(torch.int64).sort(1).values
    return torch.searchsorted(ordered, ids, right=True) - torch.searchsorted(ordered, ids)
