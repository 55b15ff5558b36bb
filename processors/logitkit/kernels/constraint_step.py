"""A step of rows under constraints as one kernel: advance, mask, or both."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.kernels import parts
from logitkit.kernels.automaton import (
    CLASSES,
    DEAD,
    FINISHED,
    FIRST_STATE,
    SLOT,
    advance,
    is_current,
    is_legal,
)
from logitkit.kernels.kernel import Argument, kernel
from logitkit.kernels.language import tl
from logitkit.kernels.masking import ALL_ENDS, NO_ENDS, mask_row
from logitkit.kernels.parts import Parts
from logitkit.kernels.records import Records, sizes

__all__ = ["constraint_step", "depth_room"]


@kernel
def constraint_kernel(
    tables, slot_count: tl.int32, size: tl.int32, class_width: tl.int32, outcome_width: tl.int32, ends: tl.int32,
    slots, generations, states, stacks, lefts, depth: tl.int32,
    tokens, steps: tl.int32, token_stride: tl.int64, step_stride: tl.int64, new_states, new_stacks, new_lefts,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64, scratch,
    DEPTH: tl.constexpr, CONTIGUOUS: tl.constexpr, LANES: tl.constexpr, STRIP: tl.constexpr, STRIPS: tl.constexpr,
):  # fmt: skip
    """Advance a row through `tokens`, if there are any, then mask its `logits`, if there are any.

    Each part of a row computes the state by itself; the first one writes it, to new memory, so that no part reads what another
    writes. All of a row's parts together write each logit at most once, but for EOS in the end: see `mask_row`.
    """
    row, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    slot = tl.load(slots + row)
    current = is_current(tables, slot_count, slot, tl.load(generations + row))
    state = tl.where(current, tl.load(states + row), DEAD)
    stack, left = 0, tl.load(lefts + row)
    if DEPTH > 0:
        lane = tl.arange(0, DEPTH)
        stack = tl.load(stacks + row * depth + lane, mask=(lane < depth) & (state != DEAD), other=0)
    if tokens is not None:
        for i in range(steps):
            token = tl.load(tokens + row * token_stride + i * step_stride)
            if (token != -1) & (state >= FIRST_STATE):
                state, stack = advance(tables, size, class_width, outcome_width, slot, state, stack, token, DEPTH)
                left = tl.where(left > 0, left - 1, left)
        if part == 0:
            tl.store(new_states + row, state)
            if DEPTH > 0:
                tl.store(new_stacks + row * depth + lane, stack, mask=lane < depth)
                tl.store(new_lefts + row, left)
    if logits is not None:
        if slot != 0:  # which allows everything
            legal = (scratch + tl.num_programs(0)).to(tl.pointer_type(tl.int8)) + (row * parts + part) * class_width
            if state >= FIRST_STATE:
                classes = tl.load(tables.slots + SLOT * slot + CLASSES).to(tl.int32)
                for begin in range(0, classes, LANES):
                    # Past the end, threads repeat the last class.
                    symbol = tl.minimum(begin + tl.arange(0, LANES), classes - 1)
                    found = is_legal(tables, class_width, outcome_width, slot, state, stack, left, symbol, DEPTH)
                    tl.store(legal + symbol, found.to(tl.int8))
                # Threads read what others have written.
                tl.debug_barrier()
            mask_row(
                tables, size, ends, slot, legal, state >= FIRST_STATE, tl.where(state == FINISHED, ALL_ENDS, NO_ENDS),
                logits + row * row_stride, width, column_stride, scratch + row, part, parts, CONTIGUOUS, STRIP, STRIPS,
            )  # fmt: skip


def constraint_step(
    tables: Records,
    slot: Tensor,
    generation: Tensor,
    rows: tuple[Tensor, Tensor, Tensor],
    tokens: Tensor | None = None,
    logits: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Advance rows, mask their logits in place, or both.

    Args:
        tables: The tables of the bank on the device of the rows.
        slot: [B] int64.
        generation: [B] int64.
        rows: [B] int64 states, [B, D] int32 frames, and [B] int64 tokens left.
        tokens: [B] or [B, T] integers, -1 = none; None: no token is committed.
        logits: [B, W] floating point; None: nothing is masked.

    Returns:
        The rows after the tokens. None if no kernel runs here, and nothing has happened.
    """
    count, depth = rows[1].shape
    if not count:
        return None
    state, stack, left = (part.contiguous() for part in rows)
    after = rows
    advancing: tuple[Argument, ...] = (None, 0, 0, 0, None, None, None)
    if tokens is not None:
        tokens = (tokens if tokens.dim() == 2 else tokens[:, None]).to(torch.int64)
        made = [torch.empty_like(part) for part in ((state, stack, left) if depth else (state,))]
        after = (made[0], made[1], made[2]) if depth else (made[0], stack, left)
        advancing = (tokens, tokens.shape[1], *tokens.stride(), *after)
    divided = Parts.of(logits, tables.default.shape[1])
    place = slot.contiguous(), generation.contiguous(), state, stack, left, depth
    started = constraint_kernel.launch(
        slot.device,
        (count, divided.number),
        (tables, *sizes(tables), *place, *advancing, *divided.arguments),
        (depth_room(depth), divided.contiguous, parts.CLASSES_AT_A_TIME, parts.STRIP, parts.STRIPS),
        (tables.class_of.dtype, tokens is None, divided.dtype),
        warps=1 if logits is None else parts.WARPS,
    )
    return after if started else None


def depth_room(depth: int) -> int:
    """Return the room that a kernel has for frames: of few sizes, since each is compiled by itself."""
    room = 32 if depth else 0
    while room < depth:
        room *= 4
    return room
