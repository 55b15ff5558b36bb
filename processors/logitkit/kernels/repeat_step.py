"""Kernels for tokens that would continue a repeat: `NoRepeatNGram` bans them, and `Dry` subtracts a penalty.

By hand, for the tokens 1 2 3 1 2: the last one has the *age* 0, and the 3 has the age 2. Before the 3 stand 1 2, which are also
the last two tokens. So the repeat before it has the length 2, and `NoRepeatNGram(3)` bans the 3. Before all other tokens, the
length is 0.
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.kernels.kernel import kernel
from logitkit.kernels.language import device_function, tl
from logitkit.kernels.listed_step import MOST, finite, room_of

__all__ = ["dry_step", "ngram_step"]

# Places in a program of `NoRepeatNGram`. For `Dry`, one program has all tokens of a row.
BLOCK = 1024


@device_function
def token_of(kept, size, length, window, count, age):
    """Return the tokens of some ages, -1 past the oldest, and where there was no room for one.

    Args:
        kept: Pointer to the tokens of the row, of which number `i` is at index `i % window`.
        size: How many there is room for. A row that exceeds `Context.max_length` must not read the next one.
        length: How many tokens the row has had.
        window: How many it remembers.
        count: How many there are.
        age: The ages, from 0.
    """
    place = (length - 1 - age) % window
    there = (age < count) & (place < size)
    return tl.load(kept + tl.where(there, place, 0), mask=there, other=-1)


@kernel
def ngram_kernel(
    kept, lengths, windows, size: tl.int32, runs, logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Set the logits of tokens to -inf that would complete a run that has occurred."""
    row, age = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    length, window, run = tl.load(lengths + row), tl.load(windows + row), tl.load(runs + row)
    own, count = kept + row * size, tl.minimum(length, window)
    token = token_of(own, size, length, window, count, age)
    again = (token >= 0) & (token < width) & (run > 0)
    back = 0
    while (back < run - 1) & (tl.max(again.to(tl.int32), 0) > 0):
        # The token that this one follows, as far back, and the last ones.
        again = again & (
            token_of(own, size, length, window, count, age + 1 + back)
            == token_of(own, size, length, window, count, back)
        )
        back += 1
    here = logits + row * row_stride + token.to(tl.int64) * column_stride
    # Several threads and programs may write the same number to one place.
    tl.store(here, float("-inf"), mask=again)


def ngram_step(kept: Tensor, length: Tensor, window: Tensor, runs: Tensor, logits: Tensor) -> bool:
    """Ban the tokens that would complete a run that has occurred, in place.

    Args:
        kept: [B, N] int32, the tokens; see `TokenHistory`.
        length: [B] int64.
        window: [B] int64.
        runs: [B] int64, the number of tokens in a run; 0 bans nothing.
        logits: [B, V] floating point.

    Returns:
        Whether it was done. If not, no kernel runs here, and nothing has happened.
    """
    if not kept.numel():
        return True
    history = kept.contiguous(), length.contiguous(), window.contiguous(), kept.shape[1], runs.contiguous()
    return ngram_kernel.launch(
        logits.device,
        (len(kept), -(-kept.shape[1] // BLOCK)),
        None,
        (*history, logits, logits.shape[1], *logits.stride()),
        (BLOCK,),
        (logits.dtype,),
        warps=4,
    )


@device_function
def is_listed(ids, size, wanted):
    """Return which ids are in a list, by a binary search in all threads at once.

    Args:
        ids: Pointer to ascending ids.
        size: Their number.
        wanted: The ids to look for.
    """
    low, high = tl.zeros_like(wanted), tl.zeros_like(wanted) + size
    span = size
    while span > 0:
        middle = (low + high) // 2
        less = tl.load(ids + middle, mask=middle < size, other=2147483647) < wanted
        low, high = tl.where(less, middle + 1, low), tl.where(less, high, middle)
        low = tl.minimum(low, high)
        span = span // 2
    return tl.load(ids + low, mask=low < size, other=-1) == wanted


@kernel
def dry_kernel(
    kept, lengths, windows, size: tl.int32, single, singles: tl.int32, penalties, penalty_count: tl.int32, longest,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    MOST_FINITE: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    """Subtract a penalty from the logits of tokens that would continue a repeat; of several for one token, the greatest."""
    row, age = tl.program_id(0).to(tl.int64), tl.arange(0, ROOM)
    length, window = tl.load(lengths + row), tl.load(windows + row)
    own, count = kept + row * size, tl.minimum(length, window)
    token = token_of(own, size, length, window, count, age)
    breaks = is_listed(single + row * singles, singles, token) & (token >= 0)
    # A repeat does not reach back across the last breaker.
    most = tl.minimum(tl.min(tl.where(breaks, age, size), 0).to(tl.int64), tl.load(longest + row))
    going = token >= 0
    repeat, back = tl.zeros([ROOM], tl.int32), 0
    while (back < most) & (tl.max(going.to(tl.int32), 0) > 0):
        going = going & (
            token_of(own, size, length, window, count, age + 1 + back)
            == token_of(own, size, length, window, count, back)
        )
        repeat += going.to(tl.int32)
        back += 1
    # The oldest token continues no repeat, since no token comes before it.
    costs = (age + 1 < count) & ~breaks & (token >= 0) & (token < width)
    amount = tl.load(penalties + row * penalty_count + repeat, mask=costs, other=0.0)
    here = logits + row * row_stride + token.to(tl.int64) * column_stride
    given = tl.load(here, mask=costs, other=0.0).to(tl.float32)
    changed = finite(given, given - amount, logits.dtype.element_ty, MOST_FINITE)
    # From the least penalty to the greatest, so that the greatest for a token is written last.
    left = costs & (amount > 0.0)
    while tl.max(left.to(tl.int32), 0) > 0:
        now = tl.min(tl.where(left, amount, float("inf")), 0)
        tl.debug_barrier()
        tl.store(here, changed, mask=left & (amount == now))
        left = left & (amount > now)


def dry_step(
    kept: Tensor, length: Tensor, window: Tensor, single: Tensor, penalties: Tensor, longest: Tensor, logits: Tensor
) -> bool:
    """Subtract the penalties of `Dry`, in place.

    Args:
        kept: [B, N] int32, the tokens; see `TokenHistory`.
        length: [B] int64.
        window: [B] int64.
        single: [B, K] int32, ascending, the tokens that are a breaker.
        penalties: [B, L] float32, by the length of a repeat.
        longest: [B] int64, the length from which they are constant.
        logits: [B, V] floating point.

    Returns:
        Whether it was done. If not, no kernel runs here, and nothing has happened.
    """
    size = kept.shape[1]
    if size > MOST or logits.dtype.itemsize > torch.float32.itemsize:
        return False
    if not kept.numel():
        return True
    history = kept.contiguous(), length.contiguous(), window.contiguous(), size
    costs = single.contiguous(), single.shape[1], penalties.contiguous(), penalties.shape[1], longest.contiguous()
    room, warps = room_of(size)
    return dry_kernel.launch(
        logits.device,
        (len(kept), 1),
        None,
        (*history, *costs, logits, logits.shape[1], *logits.stride()),
        (torch.finfo(logits.dtype).max, room),
        (logits.dtype,),
        warps=warps,
    )
