"""Lists of token ids, one per row, as a tensor padded with -1: how they are made, looked up and masked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.runtime.host_logits import HostLogits, filled

__all__ = ["Places", "ban_rows", "ban_tensors", "id_tensor", "is_any", "listed_rows", "rising"]


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


class Places(NamedTuple):
    """The columns of the ids of each row, for gather and scatter.

    An empty place, and an id that is not a column, repeats the first id of its row, which is then written twice. Since ids are
    ascending, the first one is a column if any is.

    Args:
        at: [B, N] int64 columns.
        source: [B, N] int64, the index in the list that each one stands for.
        some: [B, 1] bool, whether the row has ids. If not, all its places are the same column, which must not change.
    """

    at: Tensor
    source: Tensor
    some: Tensor

    @classmethod
    def of(cls, ids: Tensor, columns: int) -> Places:
        """Look up [B, N] ascending ids, N at least 1."""
        real = (ids >= 0) & (ids < columns)
        source = torch.where(real, torch.arange(ids.shape[1], device=ids.device), 0)
        at = ids.gather(1, source).clamp(0, columns - 1).to(torch.int64)
        return cls(at, source, real[:, :1])


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


def ban_tensors(ids: Tensor, logits: Tensor) -> Tensor:
    """Set logits to -inf, in place, with tensors only; see `ban_rows`."""
    if ids.shape[1] == 0:
        return logits
    places = Places.of(ids, logits.shape[1])
    return logits.scatter_(1, places.at, torch.where(places.some, -torch.inf, logits.gather(1, places.at)))


def is_any(tokens: Tensor, ids: Sequence[int]) -> Tensor:
    """Return which tokens are one of some ids, of which there is at least one, without copying a tensor of the ids."""
    found = tokens == ids[0]
    for other in ids[1:]:
        found = found | (tokens == other)
    return found
