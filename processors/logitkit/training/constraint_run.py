"""Neighbouring constraints of a chain, for which replay measures how much probability they keep together.

A constraint leaves a logit as it is, or sets it to -inf. So the mass that it keeps is the sum of exponentials after it, divided
by that before it. Rows that must end are the exception: only EOS (or a forced token) is left there, at a logit that the processor
chose. They are found by the few tokens that can be left, and their mass is that of the logits before.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from logitkit.runtime.token_bits import legal_tokens, packed
from logitkit.training.derivatives import end_ids
from logitkit.training.log_sums import LogSums, log_sums
from logitkit.training.state_blocks import StateBlock

__all__ = ["ConstraintRun"]


class KeptMass(NamedTuple):
    """What constraints kept.

    Args:
        log_mass: [N], the logarithm of the mass of the tokens that are left, in the logits before.
        raised: [N] bool, the rows that must end, whose logits do not depend on those before.
        sums: The `log_sums` of the logits after the constraints, if they are known.
        legal: [N, ceil(V / 32)] int32, the tokens above -inf after the constraints, if they are known.
    """

    log_mass: Tensor
    raised: Tensor
    sums: LogSums | None
    legal: Tensor | None


class ConstraintRun:
    """The logits before some neighbouring constraints, as far as they are needed after these.

    Args:
        logits: [N, V], the logits before the first constraint.
        block: The states of the rows.
        room: [N, V] of the same dtype, or [1, V] on the CPU, which may be overwritten.
    """

    def __init__(self, logits: Tensor, block: StateBlock, room: Tensor) -> None:
        columns = logits.shape[1]
        chain = block.group.chain
        ends = dict.fromkeys(i for p in chain.processors for i in end_ids(p, chain.known_eos_ids) if i < columns)
        fixed = torch.tensor([*ends], dtype=torch.int64).to(logits.device).expand(len(logits), -1)
        # All tokens that may be left in a row that must end: EOS, and the token that was sampled.
        self._ids = torch.cat([fixed, block.tokens[:, None]], 1)
        self._is_repeated = torch.cat([torch.zeros_like(fixed, dtype=torch.bool), _any_equal(fixed, block.tokens)], 1)
        self._given = logits.gather(1, self._ids)
        self._sums = log_sums(logits, room)
        self._before: Tensor | None = None

    def keep_before(self, logits: Tensor) -> None:
        """Keep a copy of the logits before a constraint of a user, which may set any logit to any number."""
        if self._before is None:
            self._before = logits.clone()

    def measure(self, logits: Tensor, room: Tensor) -> KeptMass:
        """Return what the constraints kept.

        Args:
            logits: [N, V], the logits after the last constraint.
            room: [N, V] of the same dtype, or [1, V] on the CPU, which may be overwritten.
        """
        found = self._measured(logits, room)
        # Where earlier processors have left nothing, there is nothing to keep.
        nothing = self._sums.top == -torch.inf
        return found._replace(log_mass=found.log_mass.masked_fill(nothing, 0))

    def _measured(self, logits: Tensor, room: Tensor) -> KeptMass:
        left = logits.gather(1, self._ids)
        there = left > -torch.inf
        raised = (there & (left != self._given)).any(1)
        if self._before is not None:
            masked = torch.where(logits > -torch.inf, self._before, -torch.inf)
            return KeptMass(log_sums(masked, room).less(self._sums), torch.zeros_like(raised), None, None)
        few = log_sums(torch.where(there & ~self._is_repeated, self._given, -torch.inf))
        legal = packed(legal_tokens(logits)) if logits.is_cpu else None
        sums = log_sums(logits, room, legal)
        return KeptMass(torch.where(raised, few.less(self._sums), sums.less(self._sums)), raised, sums, legal)


def _any_equal(ids: Tensor, tokens: Tensor) -> Tensor:
    """Return whether each token, [N], is among the ids of its row, [N, 1] bool."""
    return (ids == tokens[:, None]).any(1, keepdim=True)
