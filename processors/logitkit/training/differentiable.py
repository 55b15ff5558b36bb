"""The log-probabilities of rollouts as a function that torch differentiates, without a copy of all logits.

The forward pass goes through the logits in blocks of a few megabytes and keeps one number for each token. The backward pass goes
through them again, processes each block anew, and writes its part of the gradient. Only the logits are saved between the two.
"""

from __future__ import annotations

import mmap
from typing import Any, NamedTuple

import torch
from torch import Tensor

from logitkit.runtime.token_bits import legal_tokens, packed, sizes, width
from logitkit.training.block_pass import BackwardPass, pass_back, pass_forward
from logitkit.training.block_room import FEW_ROWS, BlockRoom
from logitkit.training.derivatives import READING_ROWS, Derivative, derivative_of
from logitkit.training.few_legal import FewLegal, FewPass, are_few
from logitkit.training.kept_sets import restrict, restrict_row
from logitkit.training.log_sums import log_sums
from logitkit.training.rollouts import Rollouts
from logitkit.training.state_blocks import StateBlock, blocks_of

__all__ = ["LogProbs", "Measured", "gradient", "measured", "sets_of"]


class Measured(NamedTuple):
    """What a forward pass finds at each step, zero at padding.

    Args:
        log_probs: [B, T] float32, or float64 for logits of 64 bits.
        forced: [B, T] bool.
        log_mass: [B, T] in the dtype of `log_probs`.
        faults: [B, T] bool: the token is illegal, the kept set has a token that constraints mask, or the logits are broken.
        raised: [B, T] bool: the row had to end, so that no logit depends on the given ones.
        legal: [B, T, ceil(V / 32)] int32, the tokens that were left, if a backward pass may use them; otherwise None.
    """

    log_probs: Tensor
    forced: Tensor
    log_mass: Tensor
    faults: Tensor
    raised: Tensor
    legal: Tensor | None


class LogProbs(torch.autograd.Function):
    """The first four of `Measured` from logits, kept sets and rollouts. The first one is differentiable in the logits."""

    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, kept: Tensor | None, rollouts: Rollouts
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return what a forward pass finds."""
        with torch.autocast(logits.device.type, enabled=False):
            found = measured(logits, kept, rollouts, with_legal=ctx.needs_input_grad[0] and kept is None)
        log_probs, forced, log_mass, faults, raised, legal = found
        ctx.save_for_backward(logits, kept, legal, forced | raised)
        ctx.rollouts = rollouts
        ctx.mark_non_differentiable(forced, log_mass, faults)
        return log_probs, forced, log_mass, faults

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor, None, None]:
        """Return the gradient of the logits."""
        logits, kept, legal, constant = ctx.saved_tensors
        # Only steps that have a signal. The host reads once which these are.
        wanted = ((grad != 0) & ~constant).cpu() & (ctx.rollouts.tokens >= 0)
        with torch.autocast(logits.device.type, enabled=False):
            return gradient(logits, kept, legal, ctx.rollouts, grad, wanted), None, None


def measured(logits: Tensor, kept: Tensor | None, rollouts: Rollouts, *, with_legal: bool) -> Measured:
    """Run a forward pass.

    Args:
        logits: [B, T, V].
        kept: [B, T, ceil(V / 32)] int32, or None.
        rollouts: The rows.
        with_legal: Whether to keep the legal tokens, if a backward pass may use them.
    """
    wide, shape, device = torch.promote_types(logits.dtype, torch.float32), logits.shape[:2], logits.device
    log_probs, log_mass = (torch.zeros(shape, dtype=wide, device=device) for _ in range(2))
    forced, faults, raised = (torch.zeros(shape, dtype=torch.bool, device=device) for _ in range(3))
    legal = None
    if with_legal and _may_leave_out(rollouts) and _masks(rollouts):
        legal = torch.zeros((*shape, width(rollouts.columns)), dtype=torch.int32, device=device)
    room = BlockRoom(logits, wide)
    for block in blocks_of(rollouts):
        given = room.rows_of(block)
        top = given.amax(1)
        spare = room.spare(1 if given.is_cpu else len(given))
        made = pass_forward(block, given, sets_of(kept, block), spare)
        bits = made.legal
        if bits is None and (legal is not None or given.is_cpu):
            bits = packed(legal_tokens(made.logits))
        sums = log_sums(made.logits, spare, bits) if made.sums is None else made.sums
        chosen = made.logits.gather(1, block.tokens[:, None])[:, 0]
        found = (chosen - sums.top) - sums.above
        at = block.rows, block.steps
        alone = _forced(made.logits, bits)
        # Without the rounding of the sum.
        log_probs[at], log_mass[at], raised[at] = found.masked_fill(alone, 0), made.log_mass, made.raised
        # A token at -inf has no probability; NaN comes from a processor that returns +inf.
        faults[at] = ~top.isfinite() | made.missing | ~(found > -torch.inf)
        forced[at] = alone
        if legal is not None and bits is not None:
            legal[at] = bits
    return Measured(log_probs, forced, log_mass, faults, raised, legal)


def gradient(
    logits: Tensor, kept: Tensor | None, legal: Tensor | None, rollouts: Rollouts, grad: Tensor, wanted: Tensor
) -> Tensor:
    """Run a backward pass.

    Args:
        logits: [B, T, V].
        kept: [B, T, ceil(V / 32)] int32, or None.
        legal: The same of the tokens that the forward pass left, or None.
        rollouts: The rows.
        grad: [B, T], the gradient of the log-probabilities.
        wanted: [B, T] bool on the CPU, the steps that have a gradient, none of them padding.

    Returns:
        The gradient of the logits.
    """
    result = _zeros_like(logits)
    known = kept if legal is None and _may_leave_out(rollouts) else legal
    room = BlockRoom(logits, torch.promote_types(logits.dtype, torch.float32))
    few = torch.zeros_like(wanted)
    if known is not None and result.is_cpu:
        few = wanted & are_few(known, logits.shape[2])
    for block in blocks_of(rollouts, wanted & ~few, few):
        sets = sets_of(known, block)
        if sets is not None and result.is_cpu and few[block.rows[0], block.steps[0]]:
            _gradient_of_few(result, block, room, FewLegal.of(sets), grad, kept is not None)
            continue
        given = room.rows_of(block)
        made = pass_back(block, given, sets_of(kept, block), sets, room)
        outer = grad[block.rows, block.steps].to(given.dtype)[:, None] * made.scale
        if given.is_cpu and len(given) <= FEW_ROWS and made.is_by_row:
            _write_by_row(result, block, made, outer[:, 0], room.spare(1)[0])
            continue
        processed = made.logits if made.sets is None else restrict(made.logits, made.sets)[0]
        # The derivative of a log-probability by a logit: 1 for the token itself, less the probability of each token.
        inner = torch.softmax(processed, 1, out=room.spare(len(given))).mul_(-outer)
        inner = made.pull_back(inner.scatter_add_(1, block.tokens[:, None], outer))
        _write(result, block, inner)
    return result


def _write_by_row(result: Tensor, block: StateBlock, made: BackwardPass, outer: Tensor, room: Tensor) -> None:
    """Write the gradient of the logits of a block on the CPU, one row after the other, each of which stays in the fastest caches.

    Args:
        result: [B, T, V].
        block: N steps of rows.
        made: Their backward pass.
        outer: [N], the gradient of each log-probability, times the slopes of whole rows.
        room: [V] in the dtype of the processed logits, which may be overwritten.
    """
    counts = None if made.sets is None else sizes(made.sets).tolist()
    places = zip(block.rows.tolist(), block.steps.tolist(), block.tokens.tolist(), outer.tolist(), strict=True)
    for number, (row, step, token, factor) in enumerate(places):
        line, target = made.logits[number], result[row, step]
        if made.sets is not None and counts is not None:
            restrict_row(line.numpy(), made.sets[number], counts[number])
        inner = target if target.dtype == line.dtype else room
        torch.softmax(line, 0, out=inner).mul_(-factor)
        inner[token] += factor
        made.pull_back_row(number, inner)
        if inner is room:
            target.copy_(inner)


def _gradient_of_few(
    result: Tensor, block: StateBlock, room: BlockRoom, few: FewLegal, grad: Tensor, kept: bool
) -> None:
    """Write the gradient of the logits of a block in which few tokens are legal; that of others is zero already."""
    rows = torch.from_numpy(few.rows)
    at = block.rows[rows], block.steps[rows], torch.from_numpy(few.ids)
    made = FewPass(block, few, room.logits[at].to(room.wide), room.nothing(len(block.rows)))
    made.run(kept)
    outer = grad[block.rows, block.steps].to(room.wide)
    inner = few.softmax(made.logits).mul_(-outer[rows])
    inner[few.places_of(block.tokens)] += outer
    result[at] = inner.mul_(made.slopes).to(result.dtype)


def _may_leave_out(rollouts: Rollouts) -> bool:
    """Whether a backward pass can leave out all that mask, because nothing else reads which tokens are masked."""
    own = {*READING_ROWS, Derivative.COMPARED}
    return all(derivative_of(p) not in own for group in rollouts.groups for p in group.chain.processors)


def _masks(rollouts: Rollouts) -> bool:
    return any(derivative_of(p) is Derivative.SELECTION for group in rollouts.groups for p in group.chain.processors)


def _write(result: Tensor, block: StateBlock, grad: Tensor) -> None:
    if len(grad) <= FEW_ROWS and grad.is_cpu:
        for line, row, step in zip(grad, block.rows.tolist(), block.steps.tolist(), strict=True):
            result[row, step].copy_(line)
    else:
        result[block.rows, block.steps] = grad.to(result.dtype)


def _zeros_like(logits: Tensor) -> Tensor:
    """Return zeros of the same shape.

    On the CPU, the system gives pages of zeros, of which only those that are written to take time or memory. numpy would ask for
    large pages. They take a third of the time, but up to seven times as long on a virtual machine that gave free memory back.
    """
    size = logits.numel() * logits.itemsize
    if not logits.is_cpu or not size or not hasattr(mmap, "MAP_PRIVATE"):
        return torch.zeros_like(logits, memory_format=torch.contiguous_format)
    try:
        given = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"the gradient of the logits takes {size} bytes: {error}") from error
    return torch.frombuffer(given, dtype=logits.dtype).view(logits.shape)


def sets_of(sets: Tensor | None, block: StateBlock) -> Tensor | None:
    """Return the sets of a block, [N, ceil(V / 32)] int32 on its device, from those of all steps."""
    if sets is None:
        return None
    return sets[block.rows.to(sets.device), block.steps.to(sets.device)].to(block.rows.device)


def _forced(logits: Tensor, bits: Tensor | None) -> Tensor:
    """Return the rows with only one token above -inf, [N] bool, given the legal tokens as bits, if they are known."""
    if bits is None or not bits.is_cpu:
        return (logits > -torch.inf).sum(1) == 1
    return torch.from_numpy(sizes(bits) == 1)
