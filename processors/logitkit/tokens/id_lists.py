"""Lists of token ids, one a row, as a tensor padded with -1: how they are checked, looked up and masked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.protocol.calls import by_tensors
from logitkit.runtime.host_logits import HostLogits

__all__ = ["Places", "ban", "id_tensor", "is_any", "listed_rows", "rising"]


def rising(ids: Iterable[int]) -> tuple[int, ...]:
    """Return ids in ascending order, each once."""
    return tuple(sorted(set(ids)))


def id_tensor(lists: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Return lists of ids as [B, N] int32, padded with -1 at the end."""
    if lists and all(ids is lists[0] for ids in lists):
        # As a rule all rows have one list, perhaps half a vocabulary long.
        return torch.tensor([lists[0]], dtype=torch.int32, device=device).repeat(len(lists), 1)
    width = max(map(len, lists), default=0)
    rows = [[*ids, *[-1] * (width - len(ids))] for ids in lists]
    return torch.tensor(rows, dtype=torch.int32, device=device).reshape(len(lists), width)


def listed_rows(ids: Tensor) -> list[tuple[int, NDArray[np.int32]]]:
    """Return the number and the ids of each row that has any; `ids` is [B, N] int32 on the CPU, padded with -1 at the end."""
    lists = ids.numpy()
    # A row alone is seldom padded, and to look takes a tenth of the time that counting takes.
    if len(lists) == 1 and lists[0, -1] >= 0:
        return [(0, lists[0])]
    counts: list[int] = (lists >= 0).sum(1).tolist()
    return [(row, lists[row, :count]) for row, count in enumerate(counts) if count]


class Places(NamedTuple):
    """Where the ids of each row are among the columns, for gather and scatter.

    An empty place, and an id that is none of the columns, repeats the first of its row, which then is only written twice: as ids
    rise, the first is a column if any is.

    Args:
        at: [B, N] int64 columns.
        source: [B, N] int64, the place of the list that each stands for.
        some: [B, 1] bool, whether the row has any id; if not, all of its places are one column, to be written back as it is.
    """

    at: Tensor
    source: Tensor
    some: Tensor

    @classmethod
    def of(cls, ids: Tensor, columns: int) -> Places:
        """Look up [B, N] rising ids, of which N is at least 1."""
        real = (ids >= 0) & (ids < columns)
        source = torch.where(real, torch.arange(ids.shape[1], device=ids.device), 0)
        at = ids.gather(1, source).clamp(0, columns - 1).to(torch.int64)
        return cls(at, source, real[:, :1])


def ban(ids: Tensor, logits: Tensor) -> Tensor:
    """Set logits to -inf, in place, on either path.

    Args:
        ids: [B, N] int32, -1 = none, behind the others.
        logits: [B, V] floating point.

    Raises:
        VocabularyError: An id is none of the columns (on the host).
    """
    if ids.shape[1] == 0:
        return logits
    if by_tensors(logits):
        places = Places.of(ids, logits.shape[1])
        kept = logits.gather(1, places.at)
        return logits.scatter_(1, places.at, torch.where(places.some, -torch.inf, kept))
    ban = HostLogits.of(logits).ban
    for row, listed in listed_rows(ids):
        ban(row, listed)
    return logits


def is_any(tokens: Tensor, ids: Sequence[int]) -> Tensor:
    """Return which tokens are one of some ids, at least one: bool of their shape, without a tensor of the ids to be copied."""
    found = tokens == ids[0]
    for other in ids[1:]:
        found = found | (tokens == other)
    return found
