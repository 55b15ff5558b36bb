"""A step of rows that search for stops as one kernel: advance, mask, or both.

By hand, for the stop `ab`: after `xa`, a row is in the state of the prefix `a`, with 1 token and 2 bytes of text. The token
`bc` completes the stop. So the state is `DEAD`, the token and the state before it are kept, and the counts stay. From now on,
the mask leaves only EOS. A row before a stop and before EOS reads and writes no logit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.kernels import parts
from logitkit.kernels.automaton import DEAD, FINISHED, FIRST_STATE, advance, is_current
from logitkit.kernels.kernel import kernel, token_arguments
from logitkit.kernels.language import tl
from logitkit.kernels.masking import ALL_ENDS, EOS_ALONE, mask_row
from logitkit.kernels.parts import Parts
from logitkit.kernels.records import KernelTables

__all__ = ["stop_step"]


@kernel
def stop_kernel(
    tables, slot_count: tl.int32, size: tl.int32, class_width: tl.int32, action_width: tl.int32, ends: tl.int32,
    slots, generations, states, befores, completing, counts, texts, lengths, ids: tl.int32,
    tokens, steps: tl.int32, token_stride: tl.int64, step_stride: tl.int64, prompt: tl.int32, made,
    logits, width: tl.int32, row_stride: tl.int64, column_stride: tl.int64, scratch,
    CONTIGUOUS: tl.constexpr, STRIP: tl.constexpr, STRIPS: tl.constexpr,
):  # fmt: skip
    """Advance a row through `tokens`, if there are any, then mask its `logits`, if there are any and it has reached a stop.

    Here the state that is dead in a constraint means that a stop is complete. As in `constraint_kernel`, each part of a row
    computes the state, and the first one writes it to new memory.
    """
    row, part, rows = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.num_programs(0)
    slot, state = tl.load(slots + row), tl.load(states + row)
    current = is_current(tables, slot_count, slot, tl.load(generations + row))
    if tokens is not None:
        before, complete = tl.load(befores + row), tl.load(completing + row)
        count, text = tl.load(counts + row), tl.load(texts + row)
        for i in range(steps):
            token = tl.load(tokens + row * token_stride + i * step_stride)
            known = (token >= 0) & (token < ids)
            live = (slot != 0) & (state >= FIRST_STATE)
            after = tl.where(current, state, DEAD)
            if known & (after >= FIRST_STATE):
                after, _ = advance(tables, size, class_width, action_width, slot, after, 0, token, 0)
            fires = live & known & (after == DEAD)
            before, complete = tl.where(fires, state, before), tl.where(fires, token, complete)
            goes_on = live & (token >= 0) & (fires == 0)
            count += tl.where(goes_on, 1, 0)
            text += tl.load(lengths + token, mask=goes_on & known, other=0)
            if prompt:  # in which EOS ends nothing
                after = tl.where(live & (after == FINISHED), state, after)
            else:
                for end in range(ends):
                    ending = (tl.load(tables.ends + 2 * end) == token) & (tl.load(tables.ends + 2 * end + 1) == 1)
                    after = tl.where((slot != 0) & (after == DEAD) & known & ending, FINISHED, after)
            state = after
        if part == 0:
            tl.store(made + row, state)
            tl.store(made + rows + row, before)
            tl.store(made + 2 * rows + row, complete)
            tl.store(made + 3 * rows + row, count)
            tl.store(made + 4 * rows + row, text)
    if logits is not None:
        now = tl.where(current, state, DEAD)
        if (slot != 0) & (now < FIRST_STATE):
            kept_ends, parts = tl.where(now == FINISHED, ALL_ENDS, EOS_ALONE), tl.num_programs(1)
            mask_row(
                tables, size, ends, slot, scratch, False, kept_ends, logits + row * row_stride, width, column_stride,
                scratch + row, part, parts, CONTIGUOUS, STRIP, STRIPS,
            )  # fmt: skip


def stop_step(
    tables: KernelTables,
    lengths: Tensor,
    slot: Tensor,
    generation: Tensor,
    rows: tuple[Tensor, ...],
    tokens: Tensor | None = None,
    logits: Tensor | None = None,
    prompt: bool = False,
) -> tuple[Tensor, ...] | None:
    """Advance rows, mask their logits in place, or both.

    Args:
        tables: The tables of the registry on the device of the rows.
        lengths: [V] int32, the bytes that each token adds.
        slot: [B] int64.
        generation: [B] int64.
        rows: [B] int64 each: states, states before the completing tokens, completing tokens, tokens, and bytes of text.
        tokens: [B] or [B, T] integers, -1 = none; None: no token is committed.
        logits: [B, W] floating point; None: nothing is masked.
        prompt: Whether the tokens belong to the prompt.

    Returns:
        The rows after the tokens. None if no kernel runs here, and nothing has happened.
    """
    if not len(slot):
        return None
    after: tuple[Tensor, ...] = rows
    made = None
    if tokens is not None:
        made = torch.empty((len(rows), len(slot)), dtype=torch.int64, device=slot.device)
        after = made.unbind(0)
    divided = Parts.of(logits)
    given = [part.contiguous() for part in (slot, generation, *rows)]
    started = stop_kernel.launch(
        slot.device,
        (len(slot), divided.number),
        tables,
        (*given, lengths, len(lengths), *token_arguments(tokens), int(prompt), made, *divided.arguments),
        (divided.contiguous, parts.STRIP, parts.STRIPS),
        (tables.records.class_of.dtype, tokens is None, divided.dtype),
        warps=1 if logits is None else parts.WARPS,
    )
    return after if started else None
