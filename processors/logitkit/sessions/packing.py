"""Rows of different lengths in one rectangle: all pads on the left, and a cache over the first columns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Packing", "composed", "pack"]


# Compared by identity: tensors have no single truth value.
@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Where the tokens of a new rectangle come from.

    Args:
        rows: [R] int64, the old row of each new one.
        columns: [R, T] int64, the old column of each new place; -1 for a pad or a token that is added.
        kept: [R] int64, tokens of the old row that the new one keeps.
        masks: [R, T] int64, 1 at a token, 0 at a pad; pads are on the left only.
        cached: Columns at the left whose tokens all come from cached columns.
        is_identity: Whether these columns, and all rows, are where they were.
    """

    rows: Tensor
    columns: Tensor
    kept: Tensor
    masks: Tensor
    cached: int
    is_identity: bool


def pack(masks: Tensor, cached: int, rows: Tensor, kept: Tensor, added: Tensor, to_feed: int = 0) -> Packing:
    """Plan the rectangle of some rows: of each the first tokens, and after them new ones.

    A cached column serves all rows or none: where one row needs more tokens fed than another, the others feed as many, some of
    them again. That costs nothing in a rectangle, and a gap in their place would count as a distance where a layer has a sliding
    window.

    Args:
        masks: [R0, T0] 0 or 1; tokens may have gaps between them.
        cached: Leading columns that a cache has.
        rows: [R] int64, which rows.
        kept: [R] int64, how many tokens to keep of each.
        added: [R] int64, how many tokens come after them.
        to_feed: How many columns at the end the cache shall not serve at least: a model that goes on is fed one.

    Example:
        >>> masks = torch.tensor([[0, 1, 1, 0], [1, 1, 1, 1]])
        >>> packing = pack(masks, 3, torch.tensor([0, 1]), torch.tensor([2, 2]), torch.tensor([1, 0]))
        >>> packing.columns.tolist(), packing.masks.tolist(), packing.cached
        ([[1, 2, -1], [-1, 0, 1]], [[1, 1, 1], [0, 1, 1]], 2)
    """
    device = masks.device
    # Stable, so that tokens come first and stay in order.
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
    # A pad may stand for a pad only: another row's token there would be taken for one of this row.
    stays = torch.where(columns[:, :cached] < 0, masks[rows, :cached] == 0, columns[:, :cached] == here)
    same_rows = torch.equal(rows, torch.arange(len(masks), device=device))
    return Packing(rows, columns, kept, (index >= 0).to(masks.dtype), cached, same_rows and bool(stays.all()))


def composed(first: Packing, second: Packing) -> Packing:
    """Return the packing of the first rectangle's origin into the second, whose rows and columns are those of the first."""
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
