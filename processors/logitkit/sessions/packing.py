"""Rows of different lengths packed into one rectangle: padding on the left, and a cache of the first columns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Packing", "composed", "pack"]


# Compared by identity: tensors have no single truth value.
@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """The origin of the tokens in a new rectangle.

    Args:
        rows: [R] int64, the old row of each new row.
        columns: [R, T] int64, the old column of each new position; -1 for padding or an added token.
        kept: [R] int64, the number of tokens kept from the old row.
        masks: [R, T] int64, 1 for a token, 0 for padding; padding is on the left only.
        cached: The number of leading columns whose tokens all come from cached columns.
        is_identity: Whether these columns, and all rows, keep their positions.
    """

    rows: Tensor
    columns: Tensor
    kept: Tensor
    masks: Tensor
    cached: int
    is_identity: bool


def pack(masks: Tensor, cached: int, rows: Tensor, kept: Tensor, added: Tensor, to_feed: int = 0) -> Packing:
    """Plan a rectangle of selected rows: the first tokens of each, then new ones.

    A cached column is valid for all rows or none. If one row must feed more tokens to the model than another, all rows feed
    that many, some for a second time. In a rectangle this costs nothing. A gap instead would count as distance in layers with a
    sliding window.

    Args:
        masks: [R0, T0] 0 or 1; rows may have gaps between tokens.
        cached: The number of leading columns in the cache.
        rows: [R] int64, the selected rows.
        kept: [R] int64, the number of tokens to keep from each.
        added: [R] int64, the number of tokens to add after them.
        to_feed: The minimum number of columns at the end that the cache must not cover: a model needs at least one to continue.

    Example:
        >>> masks = torch.tensor([[0, 1, 1, 0], [1, 1, 1, 1]])
        >>> packing = pack(masks, 3, torch.tensor([0, 1]), torch.tensor([2, 2]), torch.tensor([1, 0]))
        >>> packing.columns.tolist(), packing.masks.tolist(), packing.cached
        ([[1, 2, -1], [-1, 0, 1]], [[1, 1, 1], [0, 1, 1]], 2)
    """
    device = masks.device
    # A stable sort, so that tokens come first and stay in order.
    places = masks[rows].argsort(dim=1, descending=True, stable=True)
    totals = kept + added
    width = int(totals.max()) if len(totals) else 0
    index = torch.arange(width, device=device)[None] - (width - totals)[:, None]
    there = (index >= 0) & (index < kept[:, None])
    if places.shape[1]:
        columns = torch.where(there, places.gather(1, index.clamp(0, places.shape[1] - 1)), -1)
    else:
        columns = torch.full_like(index, -1)
    served = torch.minimum(kept, masks[rows, :cached].sum(1))
    missing = max(int((totals - served).max()), to_feed) if len(totals) else 0
    cached = max(width - missing, 0)
    here = torch.arange(cached, device=device).expand(len(rows), cached)
    # Padding can only be replaced by padding: another row's token there would be mistaken for one of this row.
    stays = torch.where(columns[:, :cached] < 0, masks[rows, :cached] == 0, columns[:, :cached] == here)
    same_rows = torch.equal(rows, torch.arange(len(masks), device=device))
    return Packing(rows, columns, kept, (index >= 0).to(masks.dtype), cached, same_rows and bool(stays.all()))


def composed(first: Packing, second: Packing) -> Packing:
    """Return one packing equal to applying two: `second` selects from the result of `first`."""
    columns = torch.full_like(second.columns, -1)
    if first.columns.shape[1]:
        before = first.columns[second.rows].gather(1, second.columns.clamp(min=0))
        columns = torch.where(second.columns < 0, -1, before)
    return Packing(
        first.rows[second.rows],
        columns,
        torch.minimum(first.kept[second.rows], second.kept),
        second.masks,
        second.cached,
        first.is_identity and second.is_identity,
    )
