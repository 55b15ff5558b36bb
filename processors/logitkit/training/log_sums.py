"""The logarithm of the sum of exponentials of each row of logits."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.runtime.logit_arrays import exponentials
from logitkit.runtime.token_bits import tokens_of
from logitkit.training.few_legal import are_few

__all__ = ["LogSums", "log_sums"]


class LogSums(NamedTuple):
    """The logarithm of the sum of exponentials of each row, as `top + above`: their difference keeps more digits than one number.

    Args:
        top: [B], the greatest logit; -inf for a row of -inf.
        above: [B], from 0 to the logarithm of V; NaN if a logit is NaN or +inf.
    """

    top: Tensor
    above: Tensor

    def less(self, other: LogSums) -> Tensor:
        """Return the logarithm of the quotient of two sums, [B]; -inf if this one is zero."""
        found = (self.top - other.top) + (self.above - other.above)
        return torch.where(self.top == -torch.inf, self.top, found)


def log_sums(logits: Tensor, room: Tensor | None = None, legal: Tensor | None = None) -> LogSums:
    """Return the logarithm of the sum of exponentials of each row.

    Args:
        logits: [B, V] floating point of at least 32 bits.
        room: [B, V] of the same dtype, or [1, V] on the CPU, which may be overwritten; or None.
        legal: [B, ceil(V / 32)] int32, the tokens above -inf, if they are known.
    """
    if room is not None and logits.is_cpu and len(logits):
        return _sums_by_row(logits, room[0], legal)
    top = logits.amax(1)
    # In torch on the CPU, a softmax takes half the time of a logsumexp. Its greatest probability is that of the greatest logit.
    greatest = (torch.softmax(logits, 1) if room is None else torch.softmax(logits, 1, out=room)).amax(1)
    return LogSums(top, torch.where(top == -torch.inf, 0.0, -greatest.log()))


def _sums_by_row(logits: Tensor, room: Tensor, legal: Tensor | None) -> LogSums:
    """Return the `log_sums` of a block on the CPU, one row after the other, so that a row stays in the fastest caches.

    Args:
        logits: [B, V].
        room: [V] of the same dtype, which may be overwritten.
        legal: As in `log_sums`. In a row with few tokens above -inf, only these are read.
    """
    few = None if legal is None else are_few(legal, logits.shape[1]).tolist()
    found = []
    for number, line in enumerate(logits):
        if legal is not None and few is not None and few[number]:
            found.append(_sum_of_few(line.numpy()[tokens_of(legal[number : number + 1])[1]]))
            continue
        top, above = float(line.numpy().max()), 0.0
        if top != -math.inf:
            chances, greatest = exponentials(line, top, room)
            above = math.log(float(chances.sum()) / greatest)
        found.append((top, above))
    return LogSums(*torch.tensor(found, dtype=logits.dtype).unbind(1))


def _sum_of_few(logits: NDArray[np.floating]) -> tuple[float, float]:
    """Return the greatest of some logits, and the logarithm of the sum of exponentials relative to it."""
    top = logits.max()
    # A processor that returned +inf gives NaN, which the caller reports.
    with np.errstate(invalid="ignore"):
        return float(top), math.log(np.exp(logits - top).sum(dtype=np.float64))
