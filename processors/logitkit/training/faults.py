"""Errors about steps that cannot be replayed: illegal tokens, sets that do not fit, and broken logits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from logitkit.composition.empty_rows import end_rows
from logitkit.errors import BrokenLogits, IllegalToken, LogitkitError
from logitkit.explaining.token_texts import quoted
from logitkit.protocol.calls import process_checked
from logitkit.protocol.context import select_context
from logitkit.protocol.declared import truncates
from logitkit.protocol.processor import Processor, Role, name_of, role_of
from logitkit.protocol.state import select
from logitkit.runtime.token_bits import unpacked
from logitkit.training.differentiable import sets_of
from logitkit.training.rollouts import Rollouts
from logitkit.training.state_blocks import StateBlock, blocks_of

__all__ = ["first_fault"]


def first_fault(faults: Tensor, logits: Tensor, kept: Tensor | None, rollouts: Rollouts) -> LogitkitError:
    """Return the error for the first faulty step of the first faulty row.

    Args:
        faults: [B, T] bool, at least one.
        logits: [B, T, V].
        kept: [B, T, ceil(V / 32)] int32, or None.
        rollouts: The rows.
    """
    row, step = faults.nonzero()[0].tolist()
    for block in blocks_of(rollouts):
        there = ((block.rows == row) & (block.steps == step)).nonzero()[:, 0]
        if len(there):
            sets = sets_of(kept, block)
            own = None if sets is None else unpacked(sets, rollouts.columns)
            return _fault(_one(block, there), logits[row, step].detach(), None if own is None else own[there])
    raise AssertionError("every faulty step is in a block")


def _one(block: StateBlock, there: Tensor) -> StateBlock:
    """Return the block of one of its rows."""
    state, context = select(block.state, there), select_context(block.context, there)
    return StateBlock(block.group, block.rows[there], block.steps[there], block.tokens[there], state, context)


def _fault(block: StateBlock, line: Tensor, kept: Tensor | None) -> LogitkitError:
    row, step, token = int(block.rows), int(block.steps), int(block.tokens)
    if not bool(line.amax().isfinite()):
        return BrokenLogits("a logit of the trainer's model is NaN or +inf, or none is finite", row, step)
    if not bool(line[token] > -torch.inf):
        return _illegal(block, token, "is at -inf in the logits themselves; give logits without masks")
    if kept is not None and not bool(kept[0, token]):
        return _illegal(
            block, token, "is not among the tokens that the sampler kept; give the kept sets of these rows and steps"
        )
    wide = line[None].to(torch.promote_types(line.dtype, torch.float32))
    legal = torch.ones_like(wide, dtype=torch.bool) if kept is None else kept
    for processor, state, ends in _links(block, kept):
        wide = process_checked(processor, state, wide.clone(), block.context)
        if ends:
            wide, _ = end_rows(wide, block.group.chain.known_eos_ids)
        if bool((wide == torch.inf).any()):
            return _illegal(block, token, f"cannot be judged: {name_of(processor)} returns +inf")
        if not bool(wide[0, token] > -torch.inf):
            return _illegal(block, token, _masked_by(processor))
        masked = (legal & (wide == -torch.inf))[0].nonzero()[:, 0]
        if kept is not None and len(masked) and role_of(processor) in (Role.CONSTRAINT, Role.BIAS, Role.PENALTY):
            return _illegal(
                block,
                int(masked[0]),
                f"is among the tokens that the sampler kept, but {name_of(processor)} forbids it after the replayed tokens; give "
                "the processor, the prompts and the kept sets of the same samples",
            )
    return _illegal(block, token, "has no probability after the processors")


def _links(block: StateBlock, kept: Tensor | None) -> list[tuple[Processor[Any], Any, bool]]:
    chain = block.group.chain
    links = [
        (p, s, chain.ends_rows_after(i)) for i, (p, s) in enumerate(zip(chain.processors, block.state, strict=True))
    ]
    return [link for link in links if kept is None or not truncates(link[0])]


def _masked_by(processor: Processor[Any]) -> str:
    if truncates(processor):
        return (
            f"is outside of what {name_of(processor)} keeps of the trainer's logits, which differ from the sampler's; record the "
            "sets that the sampler kept (logitkit.training.kept) and give them: replay(..., kept=...)"
        )
    return (
        f"is forbidden by {name_of(processor)}; the tokens were sampled with another processor or after another prompt, or "
        "they are padding: give pad_id=..., or -1"
    )


def _illegal(block: StateBlock, token: int, reason: str) -> IllegalToken:
    vocabulary = next(
        (v for p in block.group.chain.processors if (v := getattr(p, "vocabulary", None)) is not None), None
    )
    text = ""
    if vocabulary is not None and token < len(vocabulary.tokens):
        names = [name for name, i in vocabulary.special.items() if i == token]
        found = vocabulary.tokens[token]
        text = f" ({quoted(found)})" if found is not None else f" ({names[0]})" if names else ""
    return IllegalToken(f"token {token}{text} {reason}", int(block.rows), int(block.steps), token)
