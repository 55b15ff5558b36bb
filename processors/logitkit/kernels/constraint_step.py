"""A step of rows under constraints as one kernel: advance, mask, or both.

With tensor operations, a step of a nested schema has about 400 launches, which take far longer than the arithmetic. Here each
row has programs of its own, which follow the tables of its automaton. So rows with different constraints share a launch.

By hand: `advance` of 32 rows through 3 tokens is a launch of 32 programs. Each reads the state of its row, looks up one token
after the other, and writes the new state. `process_logits` is a launch of some parts for each row (`parts`). Each part looks up
all classes in that state, and masks its own columns.

A launch writes new tensors for the state, and logits in place. Dead, finished, neutral and stale rows take the same launch.
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.kernels import parts
from logitkit.kernels.automaton import DEAD, FIRST_STATE, advance, is_current
from logitkit.kernels.kernel import Argument, kernel, token_arguments
from logitkit.kernels.language import tl, triton
from logitkit.kernels.masking import mask_state
from logitkit.kernels.parts import Parts
from logitkit.kernels.records import KernelTables

__all__ = ["constraint_step", "depth_room"]


@kernel
def constraint_kernel(
    tables, slot_count: tl.int32, size: tl.int32, class_width: tl.int32, action_width: tl.int32, ends: tl.int32,
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
                state, stack = advance(tables, size, class_width, action_width, slot, state, stack, token, DEPTH)
                left = tl.where(left > 0, left - 1, left)
        if part == 0:
            tl.store(new_states + row, state)
            if DEPTH > 0:
                tl.store(new_stacks + row * depth + lane, stack, mask=lane < depth)
                tl.store(new_lefts + row, left)
    if logits is not None:
        if slot != 0:  # which allows everything
            mask_state(
                tables, size, class_width, action_width, ends, slot, state, stack, left, logits + row * row_stride, width,
                column_stride, scratch, row, part, parts, DEPTH, CONTIGUOUS, LANES, STRIP, STRIPS,
            )  # fmt: skip


def constraint_step(
    tables: KernelTables,
    slot: Tensor,
    generation: Tensor,
    rows: tuple[Tensor, Tensor, Tensor],
    tokens: Tensor | None = None,
    logits: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Advance rows, mask their logits in place, or both.

    Args:
        tables: The tables of the registry on the device of the rows.
        slot: [B] int64.
        generation: [B] int64.
        rows: [B] int64 states, [B, D] int32 frames, and [B] int64 tokens left.
        tokens: [B] or [B, T] integers, -1 = none; None: no token is committed.
        logits: [B, W] floating point; None: nothing is masked.

    Returns:
        The rows after the tokens. None if no kernel runs here, and nothing has happened.
    """
    count, depth = rows[1].shape
    # A stale row dies with its next token, and not without one.
    if not count or (tokens is not None and not tokens.numel()):
        return None
    state, stack, left = (part.contiguous() for part in rows)
    after = rows
    written: tuple[Argument, ...] = (None, None, None)
    if tokens is not None:
        made = [torch.empty_like(part) for part in ((state, stack, left) if depth else (state,))]
        written = after = (made[0], made[1], made[2]) if depth else (made[0], stack, left)
    divided = Parts.of(logits, tables.class_width)
    place = slot.contiguous(), generation.contiguous(), state, stack, left, depth
    started = constraint_kernel.launch(
        slot.device,
        (count, divided.number),
        tables,
        (*place, *token_arguments(tokens), *written, *divided.arguments),
        (depth_room(depth), divided.contiguous, parts.CLASSES_AT_A_TIME, parts.STRIP, parts.STRIPS),
        (tables.records.class_of.dtype, tokens is None, divided.dtype),
        warps=1 if logits is None else parts.WARPS,
    )
    return after if started else None


def depth_room(depth: int) -> int:
    """Return the room that a kernel has for frames: of few sizes, since each is compiled by itself."""
    return max(32, triton.next_power_of_2(depth)) if depth else 0
