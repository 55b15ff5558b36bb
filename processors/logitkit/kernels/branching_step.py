"""A step of rows that may be in several places of an automaton at once, as one kernel: advance, mask, or both.

Tensor operations step all configurations of all rows through all layers, sort the results and remove repetitions. A program of
this kernel does so for one row, with its configurations in registers.

By hand, for palindromes `s ::= "a" s "a" | "b" s "b" | ""`: after `a`, a row has one configuration. The next `a` leads to two,
one in each layer of the automaton: without frames, and with two. They enter the row one after the other; the one with fewer
frames stands first, and would push the other one out if the row could keep only one. A class is legal if it is in one of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.kernels import parts
from logitkit.kernels.automaton import (
    CLASSES,
    DEAD,
    FINISHED,
    FIRST_STATE,
    NO_LIMIT,
    SLOT,
    advance,
    is_current,
    is_legal,
)
from logitkit.kernels.constraint_step import depth_room
from logitkit.kernels.kernel import Argument, kernel, token_arguments
from logitkit.kernels.language import constant, device_function, tl, triton
from logitkit.kernels.masking import ALL_ENDS, NO_ENDS, legal_bytes, mask_row
from logitkit.kernels.parts import Parts
from logitkit.kernels.records import KernelTables

__all__ = ["branching_step"]

# In the number that says where a configuration stands, what a frame counts; there are fewer candidates.
FRAME = constant(2**16)
# More than that number for any configuration.
NOWHERE = constant(2**30)

# The most room for frames in all configurations of a row. With four times as much, it takes a minute to compile a kernel, whose
# threads then keep 20 kB each in memory.
MOST_ROOM = 2**14


@device_function
def taken_out(states, stacks, chosen):
    """Return the state and the stack of the one configuration that is chosen."""
    return tl.sum(tl.where(chosen, states, 0), 0), tl.sum(tl.where(chosen[:, None], stacks, 0), 0)


@device_function
def in_layer(tables, slot_count, slots, generations, row, layers, layer):
    """Return the slot of a layer of a row, and whether it has an automaton: rows with fewer layers have slot 0 in the others."""
    slot = tl.load(slots + row * layers + layer)
    current = is_current(tables, slot_count, slot, tl.load(generations + row * layers + layer))
    return slot, current & ((layer == 0) | (slot != 0))


@device_function
def entered(states, stacks, keys, state, stack, order, most):
    """Enter a configuration among those of a row, and return whether one was left out for want of room.

    They stand by their number of frames, and those with as many in the order in which they come, which is unique. If the row has
    as many as it may, the last one makes room for one that stands before it. Each step of that keeps the first ones of all that
    came so far; so does the whole.

    Args:
        states, stacks: [N] and [N, D]: the configurations.
        keys: [N], by which they stand; at least `NOWHERE` where there is none.
        state, stack: The configuration.
        order: Its number among those that come.
        most: The most that the row may have.
    """
    lane = tl.arange(0, keys.shape[0])
    there = keys < NOWHERE
    equal = there & (states == state) & (tl.sum((stacks != stack[None, :]).to(tl.int32), 1) == 0)
    is_new, count = tl.max(equal.to(tl.int32), 0) == 0, tl.sum(there.to(tl.int32), 0)
    key, last = tl.sum((stack > 0).to(tl.int32), 0) * FRAME + order, tl.max(tl.where(there, keys, -1), 0)
    full = count == most
    # Lanes are filled from the first one on.
    chosen = is_new & tl.where(full, (keys == last) & (key < last), lane == count)
    states, keys = tl.where(chosen, state, states), tl.where(chosen, key, keys)
    stacks = tl.where(chosen[:, None], stack[None, :], stacks)
    return states, stacks, keys, is_new & full


@kernel
def branching_kernel(
    tables, slot_count: tl.int32, size: tl.int32, class_width: tl.int32, action_width: tl.int32, ends: tl.int32,
    slots, generations, layers: tl.int32, states, stacks, count: tl.int32, depth: tl.int32, mosts, narroweds,
    tokens, steps: tl.int32, token_stride: tl.int64, step_stride: tl.int64, new_states, new_stacks, new_narrowed,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64, scratch,
    ROOM: tl.constexpr, DEPTH: tl.constexpr,
    CONTIGUOUS: tl.constexpr, LANES: tl.constexpr, STRIP: tl.constexpr, STRIPS: tl.constexpr,
):  # fmt: skip
    """Advance a row through `tokens`, if there are any, then mask its `logits`, if there are any.

    A token takes each configuration of a row through each layer of its automaton. As in `constraint_kernel`, each part of a row
    computes the state, and the first one writes it to new memory.
    """
    row, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    lane, frame = tl.arange(0, ROOM), tl.arange(0, DEPTH)[None, :]
    held, place = lane < count, (row * count + lane)[:, None] * depth + frame
    state = tl.load(states + row * count + lane, mask=held, other=DEAD)
    stack = tl.load(stacks + place, mask=held[:, None] & (frame < depth), other=0)
    # Where each configuration stands in the row.
    rank, end = lane, tl.max(tl.where(state != DEAD, lane, -1), 0) + 1
    if tokens is not None:
        most, narrowed = tl.load(mosts + row).to(tl.int32), tl.load(narroweds + row) != 0
        for i in range(steps):
            token = tl.load(tokens + row * token_stride + i * step_stride)
            after, stack_after, keys = tl.zeros([ROOM], tl.int64), tl.zeros([ROOM, DEPTH], tl.int32), lane + NOWHERE
            for layer in range(layers):
                slot, is_there = in_layer(tables, slot_count, slots, generations, row, layers, layer)
                for number in range(end):
                    one, frames = taken_out(state, stack, rank == number)
                    one = tl.where(is_there, one, DEAD)
                    if (token != -1) & (one >= FIRST_STATE):
                        one, frames = advance(tables, size, class_width, action_width, slot, one, frames, token, DEPTH)
                    if one != DEAD:
                        after, stack_after, keys, left_out = entered(
                            after, stack_after, keys, one, frames, layer * count + number, most
                        )
                        narrowed = narrowed | left_out
            state, stack = after, stack_after
            rank = tl.sum((keys[None, :] < keys[:, None]).to(tl.int32), 1)
            end = tl.sum((keys < NOWHERE).to(tl.int32), 0)
        if part == 0:
            there, place = rank < count, (row * count + rank)[:, None] * depth + frame
            tl.store(new_states + row * count + rank, state, mask=there)
            tl.store(new_stacks + place, stack, mask=there[:, None] & (frame < depth))
            tl.store(new_narrowed + row, narrowed)
    if logits is not None:
        slot, is_there = in_layer(tables, slot_count, slots, generations, row, layers, 0)
        now = tl.where(is_there, tl.max(state, 0), DEAD)
        if slot != 0:  # which allows everything
            legal = legal_bytes(scratch, row, part, parts, class_width)
            if now >= FIRST_STATE:
                classes = tl.load(tables.slots + slot * SLOT + CLASSES).to(tl.int32)
                for begin in range(0, classes, LANES):
                    # Past the end, threads repeat the last class.
                    symbol = tl.minimum(begin + tl.arange(0, LANES), classes - 1)
                    found = symbol < 0
                    for layer in range(layers):
                        own, is_there = in_layer(tables, slot_count, slots, generations, row, layers, layer)
                        for number in range(end):
                            one, frames = taken_out(state, stack, rank == number)
                            if is_there & (one >= FIRST_STATE):
                                found = found | is_legal(
                                    tables, class_width, action_width, own, one, frames, NO_LIMIT, symbol, DEPTH
                                )
                    tl.store(legal + symbol, found.to(tl.int8))
                # From here on, threads read what others have written.
                tl.debug_barrier()
            mask_row(
                tables, size, ends, slot, legal, now >= FIRST_STATE, tl.where(now == FINISHED, ALL_ENDS, NO_ENDS),
                logits + row * row_stride, width, column_stride, scratch + row, part, parts, CONTIGUOUS, STRIP, STRIPS,
            )  # fmt: skip


def branching_step(
    tables: KernelTables,
    places: tuple[Tensor, Tensor],
    rows: tuple[Tensor, Tensor, Tensor, Tensor],
    tokens: Tensor | None = None,
    logits: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Advance rows, mask their logits in place, or both.

    Args:
        tables: The tables of the registry on the device of the rows.
        places: [B, J] int64 slots of the layers, and [B, J] int64 generations.
        rows: [B, N] int64 states, [B, N, D] int32 frames, [B] int64 numbers of configurations at most, and [B] bool, whether
            some were left out.
        tokens: [B] or [B, T] integers, -1 = none; None: no token is committed.
        logits: [B, W] floating point; None: nothing is masked.

    Returns:
        The states, frames, and whether some configurations were left out, after the tokens. None if no kernel runs here, or a
        row has too much room for one, and nothing has happened.
    """
    states, stacks, most, narrowed = (part.contiguous() for part in rows)
    batch, count, depth = stacks.shape
    room, frames = max(16, triton.next_power_of_2(count)), depth_room(max(depth, 1))
    if not batch or room * frames > MOST_ROOM:
        return None
    after = states, stacks, narrowed
    written: tuple[Argument, ...] = (None, None, None)
    if tokens is not None:
        written = after = torch.empty_like(states), torch.empty_like(stacks), torch.empty_like(narrowed)
    divided = Parts.of(logits, tables.class_width)
    slots, generations = (part.contiguous() for part in places)
    given = slots, generations, slots.shape[1], states, stacks, count, depth, most, narrowed
    started = branching_kernel.launch(
        slots.device,
        (batch, divided.number),
        tables,
        (*given, *token_arguments(tokens), *written, *divided.arguments),
        (room, frames, divided.contiguous, parts.CLASSES_AT_A_TIME, parts.STRIP, parts.STRIPS),
        (tables.records.class_of.dtype, tokens is None, divided.dtype),
        warps=1 if logits is None else parts.WARPS,
    )
    return after if started else None
