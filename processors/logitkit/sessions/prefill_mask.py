"""Which slots of a fixed-shape cache a token may look at, where it is written, and what position it has.

A cache has a fixed number of slots, and an index: what is below it is held. A call writes its tokens into the
slots from the index on, the same for all rows. Shapes follow from the number of tokens and of slots alone, and no
value of a tensor is read on the host, so that one traced graph serves every index.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["attention", "causal", "embedded", "held_after", "positions", "prefix"]


def causal(start: Tensor, count: int, slots: int) -> Tensor:
    """Return what the queries see of a cache: `slot <= start + query offset`.

    Args:
        start: The index, a scalar int64.
        count: How many tokens are written.
        slots: How many slots the cache has.

    Returns:
        [count, slots] bool.

    Example:
        >>> causal(torch.tensor(2), 2, 6).int().tolist()
        [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]]
    """
    own = start + torch.arange(count, device=start.device)
    return torch.arange(slots, device=start.device) <= own[:, None]


def prefix(start: Tensor, count: int, slots: int, lengths: Tensor) -> Tensor:
    """Return what the queries see where the first of them also see one another (prefix-LM).

    Args:
        start: The index, a scalar int64.
        count: How many tokens are written.
        slots: How many slots the cache has.
        lengths: [B] int64, how many of the tokens are each row's prefix.

    Returns:
        [B, count, slots] bool.

    Example:
        >>> prefix(torch.tensor(1), 3, 5, torch.tensor([2]))[0].int().tolist()
        [[1, 1, 1, 0, 0], [1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]
    """
    inside = torch.arange(count, device=start.device) < lengths[:, None]
    seen = torch.arange(slots, device=start.device) < start + lengths[:, None]
    return causal(start, count, slots) | (inside[:, :, None] & seen[:, None, :])


def embedded(mask: Tensor, start: Tensor, slots: int) -> Tensor:
    """Return a mask between the tokens that are written as one over the whole cache, of which it forbids no more.

    Args:
        mask: [..., T, T] bool, True where a token may look at another.
        start: The index, a scalar int64.
        slots: How many slots the cache has.

    Returns:
        [..., T, slots] bool.

    Example:
        >>> embedded(torch.tensor([[True, False], [False, True]]), torch.tensor(1), 4).int().tolist()
        [[1, 1, 0, 1], [1, 0, 1, 1]]
    """
    count = mask.shape[-1]
    column = torch.arange(slots, device=start.device) - start
    inside = (column >= 0) & (column < count)
    return mask[..., column.clamp(0, count - 1)] | ~inside


def held_after(held: Tensor, start: Tensor, present: Tensor) -> Tensor:
    """Return which slots hold a token of their row after a call.

    Args:
        held: [B, slots] bool, those before; at and above the index it is not looked at.
        start: The index, a scalar int64.
        present: [B, T] bool, which of the columns written are tokens; the rest are pads.

    Returns:
        [B, slots] bool.

    Example:
        >>> held_after(torch.zeros(1, 4).bool(), torch.tensor(1), torch.tensor([[False, True]])).int().tolist()
        [[0, 0, 1, 0]]
    """
    count = present.shape[1]
    column = torch.arange(held.shape[1], device=start.device) - start
    written = present[:, column.clamp(0, count - 1)] & (column < count)
    return torch.where(column < 0, held, written)


def positions(held: Tensor, start: Tensor, present: Tensor) -> Tensor:
    """Return the position of each column in its row: how many tokens of the row are before it.

    Args:
        held: [B, slots] bool, the slots that hold a token.
        start: The index, a scalar int64.
        present: [B, T] bool, which columns are tokens.

    Returns:
        [B, T] int64; a pad has the position of the token before it, or 0.

    Example:
        >>> held = torch.tensor([[True, False, False, False]])
        >>> positions(held, torch.tensor(1), torch.tensor([[False, True, True]])).tolist()
        [[0, 1, 2]]
    """
    before = (held & (torch.arange(held.shape[1], device=start.device) < start)).sum(1, keepdim=True)
    return (before + present.cumsum(1) - 1).clamp(min=0)


def attention(pattern: Tensor, held: Tensor, start: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the whole mask: the pattern, of it the slots that hold a token, and of these what the caller allows.

    A query that may look at nothing, as a pad is, looks at itself: a softmax over nothing is NaN, and would be written
    into the cache.

    Args:
        pattern: [T, slots] or [B, T, slots] bool, of `causal` or `prefix`.
        held: [B, slots] bool, the slots that hold a token after the call.
        start: The index, a scalar int64.
        mask: [..., T, T] or [..., T, slots] bool that broadcasts to [B, heads, T, ...], or None.

    Returns:
        [B, 1 or heads, T, slots] bool.

    Example:
        >>> start, held = torch.tensor(0), torch.tensor([[False, True, True, False]])
        >>> attention(causal(start, 3, 4), held, start)[0, 0].int().tolist()
        [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0]]
    """
    count, slots = pattern.shape[-2:]
    pattern = pattern if pattern.dim() == 3 else pattern[None]
    allowed = (pattern & held[:, None, :])[:, None]
    if mask is not None:
        whole = mask if mask.shape[-1] == slots else embedded(mask, start, slots)
        allowed = allowed & (whole[:, None] if whole.dim() == 3 else whole)
    own = torch.arange(slots, device=start.device) == (start + torch.arange(count, device=start.device))[:, None]
    return torch.where(allowed.any(-1, keepdim=True), allowed, own)
