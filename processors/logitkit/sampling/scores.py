"""Logits as finite scores, and masks over them: what truncations share."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Integer
from logitkit.protocol.context import Context

__all__ = ["AT_LEAST", "at_least", "at_least_tensors", "entropy_of", "in_place_of", "minimum", "remove", "scores_of"]

# The minimum number of tokens that a truncation keeps.
AT_LEAST = Integer(1)


def scores_of(logits: Tensor) -> Tensor:
    """Return logits in at least 32 bits, [B, V], without NaN and +inf.

    NaN counts as -inf. Logits at +inf share all probability, as they would in the limit.
    """
    wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
    wide = torch.where(wide.isnan(), -torch.inf, wide)
    infinite = wide == torch.inf
    return torch.where(infinite.any(1, keepdim=True), torch.where(infinite, 0.0, -torch.inf), wide)


def entropy_of(scores: Tensor, chances: Tensor) -> Tensor:
    """Return the entropy of each row in nats, [B, 1] float64.

    With the scores 0 and log 3, the probabilities are 1/4 and 3/4. The entropy is -log(3/4) less the mean of the differences to
    the highest score, which is -log(3)/4: 0.5623. So it takes no logarithm of each token. The sum has 64 bits, so that the
    last bit of a threshold does not depend on the number of threads or on other rows.

    Args:
        scores: [B, V] without NaN and +inf.
        chances: [B, V], their softmax.
    """
    below = scores - scores.amax(1, keepdim=True)
    mean = (torch.where(below > -torch.inf, below, 0.0) * chances).sum(1, keepdim=True, dtype=torch.float64)
    return -chances.amax(1, keepdim=True).double().log() - mean


def remove(logits: Tensor, removed: Tensor, active: Tensor) -> Tensor:
    """Return logits of which some are at -inf.

    Args:
        logits: [B, V] floating point.
        removed: [B, V] bool.
        active: [B] bool, the rows that change at all.
    """
    return torch.where((removed | logits.isnan()) & active[:, None], -torch.inf, logits)


def in_place_of(order: Tensor, sorted_mask: Tensor) -> Tensor:
    """Return a mask of sorted columns in the original order; `order`, [B, V] int64, is the column that each came from."""
    return torch.zeros_like(sorted_mask).scatter_(1, order, sorted_mask)


def minimum(context: Context, count: int) -> Tensor:
    """Return the minimum number of tokens to keep as a field of a state, for a truncation that always keeps the best one.

    Returns:
        [B, 1] int64; [B, 0] if it is 1, which needs no sorting.
    """
    return torch.full((context.batch_size, int(count > 1)), count, dtype=torch.int64, device=context.device)


def at_least_tensors(unlikely: Tensor, scores: Tensor, keep: Tensor) -> Tensor:
    """Return which tokens to remove, [B, V] bool: those that are unlikely, except for the best ones.

    Args:
        unlikely: [B, V] bool.
        scores: [B, V] without NaN.
        keep: The minimum number of tokens to keep, as `minimum` made it.
    """
    if not keep.shape[1]:
        return unlikely
    order = scores.sort(dim=1, descending=True, stable=True).indices
    return unlikely & in_place_of(order, torch.arange(scores.shape[1], device=scores.device) >= keep)


def at_least(ids: NDArray[np.intp], scores: NDArray[Any], keep: list[int]) -> NDArray[np.intp]:
    """Return the ids to keep in a row, or those of the best scores if they are too few; the lower ids if scores tie.

    Args:
        ids: At least one id.
        scores: [V] without NaN.
        keep: A row of the tensor that `minimum` returned, as a list: the minimum number of tokens to keep, or nothing.
    """
    count = sum(keep)
    return ids if len(ids) >= count else np.argsort(-scores, kind="stable")[:count]
