"""Rows under constraints on a device: the two operations on their state, advance and mask.

Where kernels run, each is one launch, for any number of tokens. Elsewhere, and while a graph is traced, tensor operations do the
same. They define what a kernel computes, bit for bit.
"""

from __future__ import annotations

from torch import Tensor

from logitkit.kernels import switch
from logitkit.protocol.calls import token_columns
from logitkit.runtime.registry_layout import RegistryLayout
from logitkit.runtime.registry_tables import advance_tensors, keep_allowed, legal_tensors
from logitkit.runtime.stack_tables import StackRows, advance_stacks, legal_stacks

__all__ = ["advance_on_device", "mask_on_device"]


def advance_on_device(
    layout: RegistryLayout, slot: Tensor, generation: Tensor, rows: StackRows, tokens: Tensor
) -> StackRows:
    """Return the rows after tokens; rows without room for frames have nothing but a state.

    Args:
        layout: The tables of the registry on the device.
        slot: [B] int64.
        generation: [B] int64.
        rows: The positions of B rows.
        tokens: [B] or [B, T] integers, -1 = none.
    """
    if switch.runs_on(slot, tokens):
        from logitkit.kernels.constraint_step import constraint_step

        after = constraint_step(layout.kernel_tables, slot, generation, rows, tokens)
        if after is not None:
            return StackRows(*after)
    if rows.stack.shape[1]:
        for column in token_columns(tokens):
            rows = advance_stacks(layout.stacks, slot, generation, rows, column)
        return rows
    state = rows.state
    for column in token_columns(tokens):
        state = advance_tensors(layout.tables, slot, generation, state, column)
    return rows._replace(state=state)


def mask_on_device(layout: RegistryLayout, slot: Tensor, generation: Tensor, rows: StackRows, logits: Tensor) -> Tensor:
    """Return the logits with every illegal token at -inf; a kernel changes them in place.

    Args:
        layout: The tables of the registry on the device.
        slot: [B] int64.
        generation: [B] int64.
        rows: The positions of B rows.
        logits: [B, W] floating point, W at least the size of the vocabulary; columns beyond it are masked.

    Raises:
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    layout.tables.check_width(logits.shape[1])
    if switch.runs_on(slot, logits):
        from logitkit.kernels.constraint_step import constraint_step

        if constraint_step(layout.kernel_tables, slot, generation, rows, None, logits) is not None:
            return logits
    if rows.stack.shape[1]:
        now, legal = legal_stacks(layout.stacks, slot, generation, rows)
    else:
        now, legal = legal_tensors(layout.tables, slot, generation, rows.state)
    return keep_allowed(layout.tables, slot, now, legal, logits)
