"""The last few tokens of each row, newest first, as a tensor of a fixed width."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.protocol.context import Context

__all__ = ["latest_of", "with_tokens"]


def latest_of(context: Context, count: int) -> Tensor:
    """Return the last tokens of each prompt, [B, count] int32, newest first, -1 after the oldest.

    Example:
        >>> latest_of(Context.of([[5, 6, 7], [8]], vocabulary_size=9), 2).tolist()
        [[7, 6], [8, -1]]
    """
    empty = torch.full((context.batch_size, count), -1, dtype=torch.int32, device=context.device)
    counts = torch.full((context.batch_size,), count, dtype=torch.int64, device=context.device)
    return with_tokens(empty, context.prompt, counts) if context.prompt.shape[1] else empty


def with_tokens(latest: Tensor, tokens: Tensor, counts: Tensor) -> Tensor:
    """Return the last tokens of each row after some more.

    Args:
        latest: [B, N] int32, newest first, -1 after the oldest.
        tokens: [B] or [B, T] int64, -1 = none.
        counts: [B] int64, how many tokens each row remembers, at most N: rows of a batch may differ.

    Example:
        >>> latest, tokens = torch.tensor([[5, 4], [-1, -1]]), torch.tensor([[6, -1, 7], [-1, 8, -1]])
        >>> with_tokens(latest, tokens, torch.tensor([2, 2])).tolist()
        [[7, 6], [8, -1]]
    """
    width = latest.shape[1]
    if not width:
        return latest
    remembered = torch.arange(width, device=latest.device) < counts[:, None]
    if tokens.dim() == 1:
        shifted = torch.cat([tokens[:, None].to(torch.int32), latest[:, :-1]], 1)
        return torch.where(tokens[:, None] >= 0, torch.where(remembered, shifted, -1), latest)
    both = torch.cat([tokens.flip(1).to(torch.int32), latest], 1)
    # Places without a token go to the end; the others keep their order.
    order = (both < 0).to(torch.uint8).sort(dim=1, stable=True).indices
    return torch.where(remembered, both.gather(1, order[:, :width]), -1)
