"""A step of rows with a thinking budget as one kernel: advance, mask, or both.

By hand, for a budget of 2 and the end `</t>`: a row inside a section has spent 1 token. The next one makes it 2, so from now on
only tokens that continue `</t>` are legal, until the section has ended and the count is 0 again. A live row whose end is not
forced reads and writes no logit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.kernels import parts
from logitkit.kernels.automaton import DEAD, FINISHED, FIRST_STATE, advance, is_current
from logitkit.kernels.codes import forced, is_inside
from logitkit.kernels.kernel import kernel, token_arguments
from logitkit.kernels.language import tl
from logitkit.kernels.masking import mask_state
from logitkit.kernels.parts import Parts
from logitkit.kernels.records import KernelTables

__all__ = ["thinking_step"]


@kernel
def thinking_kernel(
    tables, slot_count: tl.int32, size: tl.int32, class_width: tl.int32, action_width: tl.int32, ends: tl.int32,
    slots, generations, states, spents, budgets, insides, ids: tl.int32,
    tokens, steps: tl.int32, token_stride: tl.int64, step_stride: tl.int64, prompt: tl.int32, made,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64, scratch,
    CONTIGUOUS: tl.constexpr, LANES: tl.constexpr, STRIP: tl.constexpr, STRIPS: tl.constexpr,
):  # fmt: skip
    """Advance a row through `tokens`, if there are any, then mask its `logits`, if there are any and its end is forced.

    As in `constraint_kernel`, each part of a row computes the state, and the first one writes it to new memory.
    """
    row, part, parts = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(1)
    slot, state, spent = tl.load(slots + row), tl.load(states + row), tl.load(spents + row)
    budget, inside = tl.load(budgets + row), tl.load(insides + row)
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
            counted = tl.where(thinks & goes_on, spent + 1, 0)
            cut = thinks & (spent >= budget) & (after == FINISHED)
            counted = tl.where(cut, tl.maximum(spent, 1), counted)
            # Tokens after EOS change nothing, and neither do those that are not there.
            spent = tl.where((slot != 0) & known & (state != FINISHED), counted, spent)
            state, thinks = after, goes_on
        if part == 0:
            tl.store(made + row, state)
            tl.store(made + tl.num_programs(0) + row, spent)
    if logits is not None:
        is_forced = thinks & (spent >= budget)
        now = tl.where(current, tl.where(is_forced, forced(state, inside), state), DEAD)
        if (slot != 0) & (is_forced | (now < FIRST_STATE)):
            mask_state(
                tables, size, class_width, action_width, ends, slot, now, 0, 0, logits + row * row_stride, width, column_stride,
                scratch, row, part, parts, 0, CONTIGUOUS, LANES, STRIP, STRIPS,
            )  # fmt: skip


def thinking_step(
    tables: KernelTables,
    slot: Tensor,
    generation: Tensor,
    rows: tuple[Tensor, Tensor, Tensor, Tensor],
    ids: int,
    tokens: Tensor | None = None,
    logits: Tensor | None = None,
    prompt: bool = False,
) -> tuple[Tensor, Tensor] | None:
    """Advance rows, mask their logits in place, or both.

    Args:
        tables: The tables of the registry on the device of the rows.
        slot: [B] int64.
        generation: [B] int64.
        rows: [B] int64 each: states, tokens spent, budgets, and numbers of states inside a section.
        ids: The number of ids of the vocabulary.
        tokens: [B] or [B, T] integers, -1 = none; None: no token is committed.
        logits: [B, W] floating point; None: nothing is masked.
        prompt: Whether the tokens belong to the prompt.

    Returns:
        The states and the tokens spent after the tokens. None if no kernel runs here, and nothing has happened.
    """
    if not len(slot):
        return None
    after = rows[0], rows[1]
    made = None
    if tokens is not None:
        made = torch.empty((2, len(slot)), dtype=torch.int64, device=slot.device)
        after = made[0], made[1]
    divided = Parts.of(logits, tables.class_width)
    given = [part.contiguous() for part in (slot, generation, *rows)]
    started = thinking_kernel.launch(
        slot.device,
        (len(slot), divided.number),
        tables,
        (*given, ids, *token_arguments(tokens), int(prompt), made, *divided.arguments),
        (divided.contiguous, parts.CLASSES_AT_A_TIME, parts.STRIP, parts.STRIPS),
        (tables.records.class_of.dtype, tokens is None, divided.dtype),
        warps=1 if logits is None else parts.WARPS,
    )
    return after if started else None
