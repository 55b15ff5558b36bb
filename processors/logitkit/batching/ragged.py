"""Tokens of which each request has a different number, as one tensor, padded with -1.

In a step, one request has one new token, another has four, because its drafts were accepted, and a third has none:

    {0: [7], 2: [5, 9, 9, 4]}   ->   [[ 7, -1, -1, -1],
                                      [-1, -1, -1, -1],
                                      [ 5,  9,  9,  4]]

Some engines know these tokens on the host, others only on the device. For the latter, no function here reads a value there, so an
engine may queue work ahead of it: sizes depend on shapes only. Each costs a few tensor operations for any number of requests. The
numbers of columns are a tensor that the caller makes once, since making it takes as long as other operations here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["drafts_before", "known_tokens", "ragged", "rows_by_slot", "tokens_between"]


def known_tokens(output: Sequence[int]) -> list[int]:
    """Return an output without the placeholders at its end: negative ids, for tokens that are still being sampled.

    Example:
        >>> known_tokens([5, 9, -1])
        [5, 9]
    """
    count = len(output)
    while count and output[count - 1] < 0:
        count -= 1
    return list(output[:count])


def ragged(tokens: Mapping[int, Sequence[int]], rows: int) -> Tensor:
    """Return the tokens of some rows of a batch: [B] int64 if each has at most one, and otherwise [B, T].

    Args:
        tokens: The ids of each row that has any.
        rows: The number of rows, B.

    Example:
        >>> ragged({0: [7], 2: [5, 9]}, 3).tolist()
        [[7, -1], [-1, -1], [5, 9]]
    """
    width = max(map(len, tokens.values()), default=0)
    found = np.full((rows, width), -1, np.int64)
    for row, new in tokens.items():
        found[row, : len(new)] = new
    return torch.from_numpy(found[:, 0] if width == 1 else found)


def tokens_between(table: Tensor, rows: Tensor, begin: Tensor, end: Tensor, columns: Tensor) -> Tensor:
    """Return the tokens of some rows of a table from `begin` on and before `end`, but at most T of each.

    Args:
        table: [S, L] of any integer dtype, the tokens of all texts.
        rows: [K] int64, rows of the table.
        begin: [K] int64, the position of the first token.
        end: [K] int64, the position after the last one.
        columns: [T] int64, the numbers from 0 to T - 1.

    Returns:
        [K, T] int64, padded with -1.

    Example:
        >>> table = torch.tensor([[4, 5, 6, 7]])
        >>> row, begin, end = torch.tensor([[0], [1], [3]])
        >>> tokens_between(table, row, begin, end, torch.arange(3)).tolist()
        [[5, 6, -1]]
    """
    places = begin[:, None] + columns
    found = table[rows[:, None], places.clamp(max=table.shape[1] - 1)].to(torch.int64)
    return torch.where(places < end[:, None], found, -1)


def rows_by_slot(slots: Tensor, drafted: Tensor, count: int, width: int) -> Tensor:
    """Return the numbers of the rows of logits of each slot, in the order of its drafts.

    Args:
        slots: [R] int64, the slot of each row of logits.
        drafted: [R] int64, how many drafts come before it; at most `width - 1`.
        count: The number of slots.
        width: The number of columns.

    Returns:
        [count, width] int64, padded with -1.

    Example:
        >>> rows_by_slot(torch.tensor([2, 0, 0]), torch.tensor([0, 0, 1]), count=3, width=2).tolist()
        [[1, 2], [-1, -1], [0, -1]]
    """
    return _by_slot(torch.arange(len(slots), device=slots.device), slots, drafted, count, width)


def drafts_before(tokens: Tensor, slots: Tensor, drafted: Tensor, count: int, columns: Tensor) -> Tensor:
    """Return the drafts before each row of logits.

    Args:
        tokens: [R] of any integer dtype, the token at the position of each row; it is a draft if any come before the row.
        slots: [R] int64, the slot of each row.
        drafted: [R] int64, how many drafts come before it, itself counted; at most D.
        count: The number of slots.
        columns: [D + 1] int64, the numbers from 0 to D.

    Returns:
        [R, D] int64, padded with -1.

    Example:
        >>> tokens, slots, drafted = torch.tensor([[9, 5, 6, 9], [0, 0, 0, 1], [0, 1, 2, 0]])
        >>> drafts_before(tokens, slots, drafted, 2, torch.arange(3)).tolist()
        [[-1, -1], [5, -1], [5, 6], [-1, -1]]
    """
    drafts = _by_slot(tokens.to(torch.int64), slots, drafted, count, len(columns)).index_select(0, slots)
    # The token at position 0 is not a draft.
    return torch.where(columns <= drafted[:, None], drafts, -1)[:, 1:]


def _by_slot(values: Tensor, slots: Tensor, drafted: Tensor, count: int, width: int) -> Tensor:
    found = torch.full((count, width), -1, dtype=torch.int64, device=slots.device)
    found[slots, drafted.clamp(max=width - 1)] = values
    return found
