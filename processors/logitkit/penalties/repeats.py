"""How many of the last tokens are repeated at each earlier place of a history."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["repeats_row", "repeats_tensors"]

# So many tokens are compared at once: a repeat seldom is longer, and what is compared in vain costs little.
BLOCK = 32


def repeats_row(tokens: NDArray[np.int32], most: int, also_none: bool) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the tokens that would continue repeats, some perhaps twice, and how long those are.

    Args:
        tokens: [N] in order, at least one.
        most: Longer repeats count as so long.
        also_none: Whether repeats of no token count too: then every token but the first continues one.

    Returns:
        [R] tokens, and [R] lengths, none of them 0 unless `also_none`.
    """
    last = len(tokens) - 1
    # Where the run before a place may end: a longer one ends there too.
    ends = np.arange(last) if also_none else np.flatnonzero(tokens[:last] == tokens[last])
    length = np.zeros(len(ends), np.int64)
    some, done = np.arange(len(ends)), 0
    while done < most and len(some):
        back = done + np.arange(min(BLOCK, most - done))
        # An earlier run leaves the history before the last one does, and there has no token that would be the same.
        before = ends[some, None] - back
        same = np.where(before >= 0, tokens[np.maximum(before, 0)], -1) == tokens[np.maximum(last - back, 0)]
        whole = same.all(1)
        length[some] += np.where(whole, len(back), same.argmin(1))
        some, done = some[whole], done + len(back)
    return tokens[ends + 1], length


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
