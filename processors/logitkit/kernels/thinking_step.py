"""A step of rows with a thinking budget as one kernel: advance, mask, or both.

By hand, for a budget of 2 and the end `</t>`: a row inside a section has spent 1 token. The next one makes it 2, so from now on
only tokens that continue `</t>` are legal, until the section has ended and the count is 0 again. A live row whose end is neither
forced nor held back reads and writes no logit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.kernels import parts
from logitkit.kernels.automaton import DEAD, FINISHED, FIRST_STATE, advance, is_current
from logitkit.kernels.codes import forced, is_break, is_inside
from logitkit.kernels.kernel import kernel, token_arguments
from logitkit.kernels.language import constant, tl
from logitkit.kernels.masking import mask_state
from logitkit.kernels.parts import Parts
from logitkit.kernels.records import KernelTables
from logitkit.parameters import numbers

__all__ = ["thinking_step"]

NEVER_CLOSED = constant(numbers.LARGEST)


@kernel
def thinking_kernel(
    tables, slot_count: tl.int32, size: tl.int32, class_width: tl.int32, action_width: tl.int32, ends: tl.int32,
    slots, generations, states, spents, budgets, insides, closings, option_rows, ids: tl.int32,
    tokens, steps: tl.int32, token_stride: tl.int64, step_stride: tl.int64, prompt: tl.int32, made,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64, scratch,
    CONTIGUOUS: tl.constexpr, LANES: tl.constexpr, STRIP: tl.constexpr, STRIPS: tl.constexpr,
):  # fmt: skip
    """Advance a row through `tokens`, if there are any, then mask its `logits`, if there are any and its end is forced or held.

    As in `constraint_kernel`, each part of a row computes the state, and the first one writes it to new memory.
    """
    row, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    slot, state, spent = tl.load(slots + row), tl.load(states + row), tl.load(spents + row)
    budget, inside, closed_at = tl.load(budgets + row), tl.load(insides + row), tl.load(closings + row)
    limit, least, breaks, paused, held = budget, budget * 0, budget * 0, budget * 0, budget * 0
    if option_rows is not None:  # the columns of `ThinkingOptions`
        limit += tl.load(option_rows + row * 5)
        least, breaks = tl.load(option_rows + row * 5 + 1), tl.load(option_rows + row * 5 + 2)
        paused, held = tl.load(option_rows + row * 5 + 3), tl.load(option_rows + row * 5 + 4)
    current = is_current(tables, slot_count, slot, tl.load(generations + row))
    thinks = (slot != 0) & is_inside(state, inside)
    if tokens is not None:
        for i in range(steps):
            token = tl.load(tokens + row * token_stride + i * step_stride)
            known = (token >= 0) & (token < ids)
            after = tl.where(current, state, DEAD)
            if known & (after >= FIRST_STATE):
                after, _ = advance(tables, size, class_width, action_width, slot, after, 0, token, 0)
            if prompt:  # in which EOS ends nothing
                after = tl.where((after == FINISHED) & (state >= FIRST_STATE), state, after)
            goes_on = (slot != 0) & is_inside(after, inside)
            counts = is_inside(state, inside - paused) & is_inside(after, inside - paused)
            ends_grace = (spent >= budget) & is_break(state, inside, paused, breaks)
            due = (spent >= limit) | (spent >= closed_at) | ends_grace
            cut = (slot != 0) & is_inside(state, inside - paused) & due & (after == FINISHED)
            closing = tl.where(ends_grace, tl.minimum(closed_at, spent), closed_at)
            counted = tl.where(thinks & goes_on, spent + counts, 0)
            counted = tl.where(cut, tl.maximum(spent, 1), counted)
            closing = tl.where(thinks & goes_on, closing, NEVER_CLOSED)
            # Tokens after EOS change nothing, and neither do those that are not there.
            moves = (slot != 0) & known & (state != FINISHED)
            spent, closed_at = tl.where(moves, counted, spent), tl.where(moves, closing, closed_at)
            state, thinks = after, goes_on
        if part == 0:
            tl.store(made + row, state)
            tl.store(made + tl.num_programs(0) + row, spent)
            tl.store(made + 2 * tl.num_programs(0) + row, closed_at)
    if logits is not None:
        due = (spent >= limit) | (spent >= closed_at) | ((spent >= budget) & is_break(state, inside, paused, breaks))
        is_forced = (slot != 0) & is_inside(state, inside - paused) & due
        is_held = thinks & (held > 0) & (spent < least) & ~is_forced
        now = tl.where(is_forced, forced(state, inside), tl.where(is_held, state + held, state))
        now = tl.where(current, now, DEAD)
        if (slot != 0) & (is_forced | is_held | (now < FIRST_STATE)):
            mask_state(
                tables, size, class_width, action_width, ends, slot, now, 0, 0, logits + row * row_stride, width, column_stride,
                scratch, row, part, parts, 0, CONTIGUOUS, LANES, STRIP, STRIPS,
            )  # fmt: skip


def thinking_step(
    tables: KernelTables,
    slot: Tensor,
    generation: Tensor,
    rows: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    options: Tensor,
    ids: int,
    tokens: Tensor | None = None,
    logits: Tensor | None = None,
    prompt: bool = False,
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Advance rows, mask their logits in place, or both.

    Args:
        tables: The tables of the registry on the device of the rows.
        slot: [B] int64.
        generation: [B] int64.
        rows: [B] int64 each: states, tokens spent, budgets, numbers of states inside a section, and the tokens at which it is
            closed.
        options: [B, 5] int64, the columns of `ThinkingOptions`, or [B, 0] for none.
        ids: The number of ids of the vocabulary.
        tokens: [B] or [B, T] integers, -1 = none; None: no token is committed.
        logits: [B, W] floating point; None: nothing is masked.
        prompt: Whether the tokens belong to the prompt.

    Returns:
        The states, the tokens spent, and the tokens at which sections are closed, after the tokens. None if no kernel runs
        here, and nothing has happened.
    """
    if not len(slot):
        return None
    after, made = (rows[0], rows[1], rows[4]), None
    if tokens is not None:
        made = torch.empty((3, len(slot)), dtype=torch.int64, device=slot.device)
        after = made[0], made[1], made[2]
    divided = Parts.of(logits, tables.class_width)
    given = [part.contiguous() for part in (slot, generation, *rows)]
    columns = options.contiguous() if options.shape[1] else None
    started = thinking_kernel.launch(
        slot.device,
        (len(slot), divided.number),
        tables,
        (*given, columns, ids, *token_arguments(tokens), int(prompt), made, *divided.arguments),
        (divided.contiguous, parts.CLASSES_AT_A_TIME, parts.STRIP, parts.STRIPS),
        (tables.records.class_of.dtype, tokens is None, columns is None, divided.dtype),
        warps=1 if logits is None else parts.WARPS,
    )
    return after if started else None
