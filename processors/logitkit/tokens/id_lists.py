"""Lists of token ids, one per row, as a tensor padded with -1: how they are made, looked up and masked on the host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.runtime.host_logits import HostLogits, filled

__all__ = ["ban_rows", "id_tensor", "is_any", "listed_rows", "rising"]


def rising(ids: Iterable[int]) -> tuple[int, ...]:
    """Return ids in ascending order, without duplicates."""
    return tuple(sorted(set(ids)))


def id_tensor(lists: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return lists of ids as [B, N] int32, padded with -1 at the end."""
    if lists and all(ids is lists[0] for ids in lists):
        # Usually all rows have the same list, which may be half a vocabulary long.
        return torch.tensor([lists[0]], dtype=torch.int32, device=device).repeat(len(lists), 1)
    width = max(map(len, lists), default=0)
    rows = [[*ids, *[-1] * (width - len(ids))] for ids in lists]
    return torch.tensor(rows, dtype=torch.int32, device=device).reshape(len(lists), width)


def listed_rows(ids: Tensor) -> list[tuple[int, NDArray[np.int32]]]:
    """Return the index and the ids of each row that has ids; `ids` is [B, N] int32 on the CPU, padded with -1 at the end."""
    lists = ids.numpy()
    # A single row is seldom padded, and checking that takes a tenth of the time.
    if len(lists) == 1 and lists.shape[1] and lists[0, -1] >= 0:
        return [(0, lists[0])]
    counts: list[int] = (lists >= 0).sum(1).tolist()
    return [(row, lists[row, :count]) for row, count in enumerate(counts) if count]


def ban_rows(ids: Tensor, logits: Tensor) -> Tensor:
    """Set logits to -inf, in place on the CPU.

    Args:
        ids: [B, N] int32, padded with -1 at the end.
        logits: [B, V] floating point.

    Raises:
        VocabularyError: An id is not a column.
    """
    lists = ids.numpy()
    row, places = filled(lists >= 0)
    HostLogits.of(logits).ban(row, lists[places])
    return logits


def is_any(tokens: Tensor, ids: Sequence[int]) -> Tensor:
    """Return which tokens are one of some ids, of which there is at least one, without copying a tensor of the ids."""
    found = tokens == ids[0]
    for other in ids[1:]:
        found = found | (tokens == other)
    return found
