"""How many of the last tokens are repeated at each earlier place of a history."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["repeat_ends", "repeat_lengths", "repeats_tensors"]

# So many tokens are compared at once: a repeat seldom is longer, and what is compared in vain costs little.
BLOCK = 32


def repeat_ends(tokens: NDArray[np.int32], least: int) -> NDArray[np.int64]:
    """Return the places before the last where an earlier run ends that repeats the last tokens.

    Args:
        tokens: [N] in order, N above `least`.
        least: How many tokens it must repeat; every place does so for 0.
    """
    last = len(tokens) - 1
    if least == 0:
        return np.arange(last)
    ends = np.flatnonzero(tokens[least - 1 : last] == tokens[last]) + (least - 1)
    for back in range(1, least):
        if not len(ends):
            break
        ends = ends[tokens[ends - back] == tokens[last - back]]
    return ends


def repeat_lengths(tokens: NDArray[np.int32], ends: NDArray[np.int64], least: int, most: int) -> NDArray[np.int64]:
    """Return how many tokens are repeated, for what `repeat_ends` gave.

    Args:
        tokens: [N] in order.
        ends: [R] places where at least `least` tokens are repeated.
        least: As many are known to be.
        most: Longer repeats count as so long; not below `least`.
    """
    # Each row of `blocks` is the block that ends at a place; an earlier run leaves the history before the last one does, and
    # there has no token that would be the same.
    padded = np.concatenate([np.full(BLOCK, -1, np.int32), tokens])
    blocks = np.lib.stride_tricks.sliding_window_view(padded, BLOCK)[:, ::-1]
    length = np.full(len(ends), least, np.int64)
    some, done = np.arange(len(ends)), least
    while done < most and len(some):
        same = blocks[np.maximum(ends[some] - done + 1, 0)] == blocks[len(tokens) - done]
        whole = same.all(1)
        length[some] += np.where(whole, BLOCK, same.argmin(1))
        some, done = some[whole], done + BLOCK
    return np.minimum(length, most)


def repeats_tensors(latest: Tensor, most: int) -> Tensor:
    """Return for each place how many tokens before it repeat the last ones.

    Args:
        latest: [B, N] int32 token ids, newest first, -1 behind the oldest.
        most: Longer repeats may count as so long.

    Returns:
        [B, N] int64; of places behind the oldest token it means nothing.
    """
    size = latest.shape[1]
    behind = torch.nn.functional.pad(latest, (0, most + 1), value=-1)
    length = torch.zeros(latest.shape, dtype=torch.int64, device=latest.device)
    going = torch.ones_like(latest, dtype=torch.bool)
    for first in range(0, min(most, size), BLOCK):
        width = min(BLOCK, most - first)
        own = behind[:, None, first : first + width]
        before = behind[:, first + 1 :].unfold(1, width, 1)[:, :size]
        run = (before == own).cumprod(2, dtype=torch.int8).sum(2)
        length = length + torch.where(going, run, 0)
        going = going & (run == width)
    return length
