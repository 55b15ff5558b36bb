"""Logits as numbers that every truncation can calculate with, by tensors alone."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.parameters import Integer

__all__ = ["AT_LEAST", "in_place_of", "remove", "scores_of"]

# How many tokens a truncation keeps at least.
AT_LEAST = Integer(1)


def scores_of(logits: Tensor) -> Tensor:
    """Return logits in 32 bits at least, [B, V], without NaN and +inf.

    NaN counts as -inf. Where some are at +inf, they share all probability, as they would in the limit.
    """
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    wide = torch.where(wide.isnan(), -torch.inf, wide)
    infinite = wide == torch.inf
    return torch.where(infinite.any(1, keepdim=True), torch.where(infinite, 0.0, -torch.inf), wide)


def remove(logits: Tensor, removed: Tensor, active: Tensor) -> Tensor:
    """Return logits of which some are at -inf.

    Args:
        logits: [B, V] floating point.
        removed: [B, V] bool.
        active: [B] bool, rows that are to be changed at all.
    """
    return torch.where((removed | logits.isnan()) & active[:, None], -torch.inf, logits)


def in_place_of(order: Tensor, sorted_mask: Tensor) -> Tensor:
    """Return a mask of sorted columns in the order of the columns; `order`, [B, V] int64, says where each came from."""
    return torch.zeros_like(sorted_mask).scatter_(1, order, sorted_mask)
