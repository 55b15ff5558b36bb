"""Logits with tensors only: a few in each row are read and written by token id, and broken rows are flagged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["UNREAD", "Places", "ban_tensors", "broken_rows", "end_broken", "finite_tensors"]


class Places(NamedTuple):
    """The columns of the ids of each row, for gather and scatter.

    An empty place, and an id that is not a column, repeats the first id of its row that is one, which is then written twice.

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
        """Look up [B, N] ids, N at least 1; negative numbers, and ids that are not columns, mean none."""
        real = (ids >= 0) & (ids < columns)
        first = real.to(torch.uint8).argmax(1, keepdim=True)
        source = torch.where(real, torch.arange(ids.shape[1], device=ids.device), first)
        at = ids.gather(1, source).clamp(0, columns - 1).to(torch.int64)
        return cls(at, source, real.gather(1, first))


def ban_tensors(ids: Tensor, logits: Tensor) -> Tensor:
    """Set logits to -inf, in place.

    Args:
        ids: [B, N] int32; negative numbers mean none.
        logits: [B, V] floating point.
    """
    if ids.shape[1] == 0:
        return logits
    places = Places.of(ids, logits.shape[1])
    return logits.scatter_(1, places.at, torch.where(places.some, -torch.inf, logits.gather(1, places.at)))


def finite_tensors(given: Tensor, changed: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the changed logits in `dtype`; those that were finite in `given` stay finite."""
    most = torch.finfo(dtype).max
    return changed.clamp(given.clamp(max=-most), given.clamp(min=most)).to(dtype)


# The reason in an error for broken logits whose values are not read.
UNREAD = "a logit is NaN or +inf, or none is finite"


def broken_rows(logits: Tensor) -> Tensor:
    """Return which rows of logits are broken, [B] bool on their device, without reading any.

    Args:
        logits: [B, V] floating point.
    """
    return ~logits.amax(1).isfinite()


def end_broken(logits: Tensor, broken: Tensor, eos_ids: Sequence[int]) -> Tensor:
    """Return logits that leave only EOS, at 0, in the broken rows, without reading any.

    Args:
        logits: [B, V] floating point, which may be overwritten.
        broken: [B] bool, on the same device.
        eos_ids: The ids that end a row.
    """
    logits = torch.where(broken[:, None], -torch.inf, logits)
    # One by one: a list of ids would be copied to the device, and the host would wait for that.
    for end in eos_ids:
        logits.select(1, end).masked_fill_(broken, 0)
    return logits
