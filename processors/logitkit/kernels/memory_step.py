"""Kernels that add a token to what rows remember: the last tokens of a window, or all distinct tokens with their counts.

By hand, for distinct tokens with room for four:

    ids 3 7 - -, counts 1 2 0 0, after 5:    ids 3 5 7 -, counts 1 1 2 0
    after 7 again:                           ids 3 5 7 -, counts 1 1 3 0

A state is never changed, so each program writes its block of a new one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.kernels.kernel import kernel
from logitkit.kernels.language import tl

__all__ = ["append_step", "insert_step"]

# Places in a program.
BLOCK = 1024


@kernel
def append_kernel(
    kept, lengths, windows, size: tl.int32, tokens, token_stride: tl.int64, made, made_lengths, BLOCK: tl.constexpr
):
    """Write the tokens of each row with one more, in place of the oldest if the window is full."""
    row, lane = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    token, length = tl.load(tokens + row * token_stride), tl.load(lengths + row)
    place = tl.where(token >= 0, length % tl.load(windows + row), -1)
    old = tl.load(kept + row * size + lane, mask=lane < size, other=-1)
    tl.store(made + row * size + lane, tl.where(lane == place, token.to(tl.int32), old), mask=lane < size)
    if tl.program_id(1) == 0:
        tl.store(made_lengths + row, length + (token >= 0).to(tl.int64))


def append_step(kept: Tensor, length: Tensor, window: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the last tokens of rows, and their lengths, after one token each.

    Args:
        kept: [B, N] int32, the last tokens; see `TokenHistory`.
        length: [B] int64.
        window: [B] int64.
        tokens: [B, 1] int64, -1 = none.

    Returns:
        [B, N] and [B]. None if no kernel runs here.
    """
    if not kept.numel():
        return None
    kept, length = kept.contiguous(), length.contiguous()
    made, lengths = torch.empty_like(kept), torch.empty_like(length)
    arguments = kept, length, window.contiguous(), kept.shape[1], tokens, tokens.stride(0), made, lengths
    grid = len(kept), -(-kept.shape[1] // BLOCK)
    started = append_kernel.launch(kept.device, grid, None, arguments, (BLOCK,), (tokens.dtype,), warps=4)
    return (made, lengths) if started else None


@kernel
def insert_kernel(
    ids, counts, numbers, counted, size: tl.int32, tokens, token_stride: tl.int64, made_ids, made_counts, made_numbers,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Write the ascending ids of each row with one more, unless the row has it, and the counts."""
    row, lane = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    token = tl.load(tokens + row * token_stride).to(tl.int32)
    token = tl.where(tl.load(counted + row) != 0, token, -1)
    # Every program looks through the whole row, which takes less time than a second launch.
    lower, same = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int32)
    for begin in range(0, size, BLOCK):
        other = tl.load(
            ids + row * size + begin + tl.arange(0, BLOCK), mask=begin + tl.arange(0, BLOCK) < size, other=-1
        )
        lower += ((other >= 0) & (other < token)).to(tl.int32)
        same += ((other >= 0) & (other == token)).to(tl.int32)
    place = tl.sum(lower, 0)
    known = tl.sum(same, 0) > 0
    fresh = (token >= 0) & (known == 0)
    source = lane - (fresh & (lane > place)).to(tl.int32)
    is_new = fresh & (lane == place)
    old = tl.load(ids + row * size + source, mask=lane < size, other=0)
    tl.store(made_ids + row * size + lane, tl.where(is_new, token, old), mask=lane < size)
    if counts is not None:
        often = tl.load(counts + row * size + source, mask=(lane < size) & ~is_new, other=0)
        more = ((token >= 0) & (lane == place)).to(tl.int32)
        tl.store(made_counts + row * size + lane, often + more, mask=lane < size)
    if tl.program_id(1) == 0:
        tl.store(made_numbers + row, tl.minimum(tl.load(numbers + row) + fresh.to(tl.int64), size))


class Inserted(NamedTuple):
    """The distinct tokens of rows; see `TokenCounts`.

    Args:
        ids: [B, N] int32.
        counts: [B, N] int32, or [B, 0].
        number: [B] int64.
    """

    ids: Tensor
    counts: Tensor
    number: Tensor


def insert_step(ids: Tensor, counts: Tensor, number: Tensor, counted: Tensor, tokens: Tensor) -> Inserted | None:
    """Return the distinct tokens of rows after one token each.

    Args:
        ids: [B, N] int32, ascending; see `TokenCounts`.
        counts: [B, N] int32, or [B, 0].
        number: [B] int64.
        counted: [B] bool.
        tokens: [B, 1] int64, -1 = none.

    Returns:
        None if no kernel runs here.
    """
    if not ids.numel():
        return None
    often = counts.shape[1] > 0
    made = Inserted(
        torch.empty_like(ids, memory_format=torch.contiguous_format),
        torch.empty_like(counts, memory_format=torch.contiguous_format),
        torch.empty_like(number),
    )
    arguments = (
        ids.contiguous(),
        counts.contiguous() if often else None,
        number.contiguous(),
        counted.contiguous(),
        ids.shape[1],
        tokens,
        tokens.stride(0),
        made.ids,
        made.counts if often else None,
        made.number,
    )
    grid = len(ids), -(-ids.shape[1] // BLOCK)
    started = insert_kernel.launch(ids.device, grid, None, arguments, (BLOCK,), (often, tokens.dtype), warps=4)
    return made if started else None
