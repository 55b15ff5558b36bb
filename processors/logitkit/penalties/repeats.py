"""The number of last tokens that are repeated at each earlier place of a history."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["repeat_ends", "repeat_lengths", "repeats_tensors"]

# The number of tokens compared at once: repeats are seldom longer, and a few comparisons too many cost little.
BLOCK = 32


def repeat_ends(tokens: NDArray[np.int32], least: int) -> NDArray[np.int64]:
    """Return the places before the last one at which a run that equals the last tokens ends.

    Args:
        tokens: [N], oldest first, N greater than `least`.
        least: The minimum length of the run; with 0, all places are returned.
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
    """Return the length of the repeat at each place that `repeat_ends` returned.

    Args:
        tokens: [N], oldest first.
        ends: [R], the places.
        least: The minimum length, as passed to `repeat_ends`.
        most: The maximum length to return, at least `least`.
    """
    # Each row of `blocks` is the block that ends at a place, newest token first. An earlier run reaches the start of the history
    # before the last one does, and the padding there differs from all tokens.
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
    """Return, for each place, how many tokens before it equal the last ones.

    Args:
        latest: [B, N] int32 token ids, newest first, -1 after the oldest.
        most: Longer repeats may be returned as this length.

    Returns:
        [B, N] int64; undefined for places after the oldest token.
    """
    size = latest.shape[1]
    older = torch.nn.functional.pad(latest, (0, most + 1), value=-1)
    length = torch.zeros(latest.shape, dtype=torch.int64, device=latest.device)
    going = torch.ones_like(latest, dtype=torch.bool)
    for first in range(0, min(most, size), BLOCK):
        width = min(BLOCK, most - first)
        own = older[:, None, first : first + width]
        before = older[:, first + 1 :].unfold(1, width, 1)[:, :size]
        run = (before == own).cumprod(2, dtype=torch.int8).sum(2)
        length = length + torch.where(going, run, 0)
        going = going & (run == width)
    return length
