"""Attention masks, slots and positions for a fixed-shape cache.

A cache has a fixed number of slots and an index; all slots below the index are filled. A call writes its tokens into the slots
from the index on, the same for all rows. Shapes depend only on the numbers of tokens and slots, and the host never reads a
tensor, so that one traced graph works at every index.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["attention", "causal", "embedded", "held_after", "positions", "prefix"]


def causal(start: Tensor, count: int, slots: int) -> Tensor:
    """Return the slots visible to each query: `slot <= start + query offset`.

    Args:
        start: The index, a scalar int64.
        count: The number of tokens that are written.
        slots: The number of slots in the cache.

    Returns:
        [count, slots] bool.

    Example:
        >>> causal(torch.tensor(2), 2, 6).int().tolist()
        [[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]]
    """
    own = start + torch.arange(count, device=start.device)
    return torch.arange(slots, device=start.device) <= own[:, None]


def prefix(start: Tensor, count: int, slots: int, lengths: Tensor) -> Tensor:
    """Return the slots visible to each query if the first tokens also see each other (prefix-LM).

    Args:
        start: The index, a scalar int64.
        count: The number of tokens that are written.
        slots: The number of slots in the cache.
        lengths: [B] int64, the number of prefix tokens of each row.

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
    """Extend a mask between the written tokens to the whole cache, without masking any more.

    Args:
        mask: [..., T, T] bool, True where one token may attend to another.
        start: The index, a scalar int64.
        slots: The number of slots in the cache.

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
    """Return the slots that hold a token of their row after a call.

    Args:
        held: [B, slots] bool, the slots before the call; values at and above the index are ignored.
        start: The index, a scalar int64.
        present: [B, T] bool, which of the written columns are tokens; the rest is padding.

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
    """Return the position of each column in its row: the number of the row's tokens before it.

    Args:
        held: [B, slots] bool, the slots that hold a token.
        start: The index, a scalar int64.
        present: [B, T] bool, which columns are tokens.

    Returns:
        [B, T] int64; padding has the position of the token before it, or 0.

    Example:
        >>> held = torch.tensor([[True, False, False, False]])
        >>> positions(held, torch.tensor(1), torch.tensor([[False, True, True]])).tolist()
        [[0, 1, 2]]
    """
    before = (held & (torch.arange(held.shape[1], device=start.device) < start)).sum(1, keepdim=True)
    return (before + present.cumsum(1) - 1).clamp(min=0)


def attention(pattern: Tensor, held: Tensor, start: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the complete mask: slots in the pattern that hold a token and that the caller's mask allows.

    A query without any visible slot, such as padding, sees itself: a softmax over nothing is NaN, and the NaN would be written
    to the cache.

    Args:
        pattern: [T, slots] or [B, T, slots] bool, from `causal` or `prefix`.
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
