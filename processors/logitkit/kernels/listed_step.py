"""Kernels that change the logits of listed tokens: biases, bans, and penalties on tokens that have occurred.

By hand: a row lists the ids 3 and 7 with the counts 1 and 2. `FrequencyPenalty(0.5)` subtracts 0.5 from the logit of 3, and 1.0
from that of 7.

A list may name an id twice only if it is that of a window, in which tokens occur several times. Then one program has the whole
list. All its threads read their logits before any writes, so each that has the same id writes the same number.
"""

from __future__ import annotations

from enum import IntEnum

import torch
from torch import Tensor

from logitkit.kernels.kernel import kernel
from logitkit.kernels.language import constant, device_function, tl

__all__ = ["MOST", "Change", "changed_logits", "finite", "listed_step", "room_of"]


class Change(IntEnum):
    """A change of the logit of a listed token."""

    BAN = 0
    ADD = 1
    SUBTRACT = 2
    SUBTRACT_COUNTED = 3
    DIVIDE = 4


BAN, ADD, SUBTRACT, SUBTRACT_COUNTED, DIVIDE = map(constant, Change)

# Ids of a list without duplicates in a program, and the most that a list with duplicates may have.
BLOCK, MOST = 1024, 4096


@device_function
def finite(given, changed, dtype: tl.constexpr, MOST_FINITE: tl.constexpr):
    """Return changed logits of which those that were finite stay finite, as `finite_tensors` does."""
    low, high = tl.minimum(given, -MOST_FINITE), tl.maximum(given, MOST_FINITE)
    # The minimum of NaN and a number would be the number.
    nan = given != given
    return tl.where(nan, given, tl.minimum(tl.maximum(changed, low), high)).to(dtype)


@device_function
def changed_logits(given, penalty, amount, CHANGE: tl.constexpr):
    """Return logits as float32 after a change.

    Args:
        given: The logits, float32.
        penalty: The penalty of the row, float32; not used by `ADD`.
        amount: The number to add to each, or how often its token occurred.
    """
    if CHANGE == ADD:
        return given + amount
    elif CHANGE == DIVIDE:  # noqa: RET505 - the compiler must not see the other branches
        return tl.where(given < 0, given * penalty, tl.div_rn(given, tl.zeros_like(given) + penalty))
    elif CHANGE == SUBTRACT_COUNTED:
        return given - (tl.zeros_like(given) + penalty) * amount.to(tl.float32)
    else:
        return given - (tl.zeros_like(given) + penalty)


@kernel
def listed_kernel(
    ids, amounts, size: tl.int32, strength, logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64,
    CHANGE: tl.constexpr, DISTINCT: tl.constexpr, MOST_FINITE: tl.constexpr, ROOM: tl.constexpr,
):  # fmt: skip
    """Change the logits of the ids that each row lists.

    Args:
        ids: [B, N] int32; numbers that are not columns mean none.
        amounts: [B, N]: the numbers to add, float32, or how often each id occurred, int32. None: not needed, or counted here.
        strength: [B] float64 or float32, the penalty of each row.
    """
    row, lane = tl.program_id(0).to(tl.int64), tl.program_id(1) * ROOM + tl.arange(0, ROOM)
    count, penalty = size, 0.0
    if strength is not None:
        penalty = tl.load(strength + row).to(tl.float32)
        # The penalty that changes nothing.
        count = tl.where(penalty == (1.0 if CHANGE == DIVIDE else 0.0), 0, size)
    listed = lane < count
    token = tl.load(ids + row * size + lane, mask=listed, other=-1)
    there = listed & (token >= 0) & (token < width)
    here = logits + row * row_stride + token.to(tl.int64) * column_stride
    if CHANGE == BAN:
        tl.store(here, float("-inf"), mask=there)
    else:
        given = tl.load(here, mask=there, other=0.0).to(tl.float32)
        amount = tl.zeros([ROOM], tl.int32)
        if amounts is not None:
            amount = tl.load(amounts + row * size + lane, mask=there, other=0)
        elif CHANGE == SUBTRACT_COUNTED:
            for other in range(count):
                amount += (tl.load(ids + row * size + other) == token).to(tl.int32)
        changed = changed_logits(given, penalty, amount, CHANGE)
        if not DISTINCT:
            tl.debug_barrier()
        tl.store(here, finite(given, changed, logits.dtype.element_ty, MOST_FINITE), mask=there)


def room_of(size: int) -> tuple[int, int]:
    """Return the room of a program that has a whole list of some size, up to `MOST`, and its warps.

    There are only two, since each is compiled. A history that grows would wait for the compiler whenever its room doubles.
    """
    return (BLOCK, 4) if size <= BLOCK else (MOST, 16)


def listed_step(
    change: Change,
    ids: Tensor,
    logits: Tensor,
    strength: Tensor | None = None,
    amounts: Tensor | None = None,
    distinct: bool = True,
) -> bool:
    """Change the logits of the ids that each row lists, in place.

    Args:
        change: The change.
        ids: [B, N] int32; numbers that are not columns mean none.
        logits: [B, V] floating point.
        strength: [B], the penalty of each row, for penalties.
        amounts: [B, N] float32, the numbers to add; or int32, how often each id occurred.
        distinct: Whether no id is listed twice in a row. If one is, it is counted here how often.

    Returns:
        Whether it was done. If not, no kernel runs here, and nothing has happened.
    """
    rows, size = ids.shape
    if logits.dtype.itemsize > torch.float32.itemsize or (size > MOST and not distinct):
        return False
    if not ids.numel():
        return True
    room, warps = room_of(0 if distinct else size)
    return listed_kernel.launch(
        logits.device,
        (rows, -(-size // room)),
        None,
        (
            ids.contiguous(),
            None if amounts is None else amounts.contiguous(),
            size,
            None if strength is None else strength.contiguous(),
            logits,
            logits.shape[1],
            *logits.stride(),
        ),
        (int(change), int(distinct), torch.finfo(logits.dtype).max, room),
        (logits.dtype, None if strength is None else strength.dtype),
        warps=warps,
    )
