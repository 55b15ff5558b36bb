"""The executor in tensors: the two operations on states of rows, advance and mask, on a device or in a traced graph.

Where kernels run, each operation is one launch, for any number of tokens. Elsewhere, and while a graph is traced, tensor
operations do the same. They define what a kernel computes, bit for bit: without a loop over rows, and without a read by the host.

Rows without frames need two lookups a token (`registry_tables`). Those with frames need a few rounds, one for each frame that a
token may pop (`stack_tables`), and those that branch do so for each configuration (`branching`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.kernels import switch
from logitkit.protocol.calls import token_columns
from logitkit.runtime.branching import advance_branching, legal_branching
from logitkit.runtime.positions import RowPositions
from logitkit.runtime.registry_layout import RegistryLayout
from logitkit.runtime.registry_tables import advance_tensors, keep_allowed, kept_ids, legal_tensors
from logitkit.runtime.stack_tables import StackRows, advance_stacks, legal_stacks
from logitkit.runtime.token_bits import packed

__all__ = ["advance_by_operations", "advance_on_device", "bits_on_device", "mask_by_operations", "mask_on_device"]


def advance_on_device(layout: RegistryLayout, at: RowPositions, tokens: Tensor) -> RowPositions:
    """Return the positions after tokens. An illegal token, and a stale automaton, make a row dead.

    Args:
        layout: The tables of the registry on the device.
        at: The positions of B rows.
        tokens: [B] or [B, T] integers, -1 = none.
    """
    if switch.runs_on(at.state, tokens):
        after = _by_kernel(layout, at, tokens)
        if after is not None:
            return after
    for column in token_columns(tokens):
        at = advance_by_operations(layout, at, column)
    return at


def mask_on_device(layout: RegistryLayout, at: RowPositions, logits: Tensor) -> Tensor:
    """Return the logits with every illegal token at -inf; a kernel changes them in place.

    Args:
        layout: The tables of the registry on the device.
        at: The positions of B rows.
        logits: [B, W] floating point, W at least the size of the vocabulary; columns beyond it are masked.

    Raises:
        VocabularyError: The logits have fewer columns than the vocabulary has ids, or far more.
    """
    layout.tables.check_width(logits.shape[1])
    if switch.runs_on(at.state, logits) and _by_kernel(layout, at, None, logits) is not None:
        return logits
    return mask_by_operations(layout, at, logits)


def mask_by_operations(layout: RegistryLayout, at: RowPositions, logits: Tensor) -> Tensor:
    """Return the masked logits by tensor operations; see `mask_on_device`."""
    now, legal = _legal(layout, at)
    return keep_allowed(layout.tables, at.slot if at.most is None else at.slot[:, 0], now, legal, logits)


def bits_on_device(layout: RegistryLayout, at: RowPositions, columns: int) -> Tensor:
    """Return which tokens are left after `mask_on_device` if all logits are finite, as bits, [B, ceil(W / 32)] int32.

    Args:
        layout: The tables of the registry on the device.
        at: The positions of B rows.
        columns: The number of columns of the logits, W.

    Raises:
        VocabularyError: There are fewer columns than the vocabulary has ids, or far more.
    """
    now, legal = _legal(layout, at)
    return packed(kept_ids(layout.tables, at.slot if at.most is None else at.slot[:, 0], now, legal, columns))


def _legal(layout: RegistryLayout, at: RowPositions) -> tuple[Tensor, Tensor]:
    """Return the states, [B], and which classes are legal, [B, C + 1] bool; the last column means nothing."""
    if at.most is not None:
        return legal_branching(layout.stacks, at)
    if at.stack.shape[1]:
        return legal_stacks(layout.stacks, at.slot, at.generation, _stack_rows(at))
    return legal_tensors(layout.tables, at.slot, at.generation, at.state)


def advance_by_operations(layout: RegistryLayout, at: RowPositions, token: Tensor) -> RowPositions:
    """Return the positions after one token per row, [B], by tensor operations; -1 changes nothing."""
    if at.most is not None:
        return advance_branching(layout.stacks, at, token)
    if at.stack.shape[1]:
        state, stack, left = advance_stacks(layout.stacks, at.slot, at.generation, _stack_rows(at), token)
        return at._replace(state=state, stack=stack, left=left)
    return at._replace(state=advance_tensors(layout.tables, at.slot, at.generation, at.state, token))


def _by_kernel(
    layout: RegistryLayout, at: RowPositions, tokens: Tensor | None, logits: Tensor | None = None
) -> RowPositions | None:
    """Advance rows by tokens, or mask logits in place, in one launch; None if no kernel does it, and nothing has happened."""
    if at.most is None:
        from logitkit.kernels.constraint_step import constraint_step

        after = constraint_step(layout.kernel_tables, at.slot, at.generation, _stack_rows(at), tokens, logits)
        return None if after is None else at._replace(state=after[0], stack=after[1], left=after[2])
    from logitkit.kernels.branching_step import branching_step

    assert at.narrowed is not None
    rows = at.state, at.stack, at.most, at.narrowed
    made = branching_step(layout.kernel_tables, (at.slot, at.generation), rows, tokens, logits)
    return None if made is None else at._replace(state=made[0], stack=made[1], narrowed=made[2])


def _stack_rows(at: RowPositions) -> StackRows:
    return StackRows(at.state, at.stack, torch.full_like(at.state, NO_LIMIT) if at.left is None else at.left)
