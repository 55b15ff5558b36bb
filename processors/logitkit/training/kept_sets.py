"""Which tokens a sampler kept, as bits, and how much probability they had.

A set of tokens is a row of bits: see `logitkit.runtime.token_bits`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from logitkit.errors import ArgumentTypeError, BatchMismatch, ConfigurationError
from logitkit.runtime.host_logits import keep_only
from logitkit.runtime.logit_arrays import exponentials
from logitkit.runtime.token_bits import legal_tokens, packed, sizes, tokens_of, unpacked

__all__ = ["LogSums", "kept", "log_mass", "log_sums", "restrict"]

# A set with at most this part of the tokens is read and written token by token.
FEW = 16


def kept(before: Tensor, after: Tensor) -> Tensor:
    """Pack the sets of tokens that processors kept, for `replay(kept=...)`.

    Call it while sampling, at each step. Stack the steps with `torch.stack(steps, 1)`.

    Args:
        before: [B, V] floating point, the logits of the model. They are only checked against `after`.
        after: [B, V] floating point, the logits from which the token is sampled, after all processors.

    Returns:
        [B, ceil(V / 32)] int32 on the device of the logits: the bits of all tokens whose logit is above -inf.

    Raises:
        ConfigurationError: The logits are not [B, V] floating point, or differ in shape or device.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> before = torch.tensor([[1.0, 2.0, 3.0]])
        >>> lk.training.kept(before, torch.tensor([[1.0, -torch.inf, 3.0]]))
        tensor([[5]], dtype=torch.int32)

    Source: Keep Sampling Mask, in DeepSeek-AI, DeepSeek-V3.2 (2025), section 3.1.
    """
    _check_pair(before, after)
    return packed(legal_tokens(after.detach()))


def restrict(logits: Tensor, sets: Tensor) -> tuple[Tensor, Tensor]:
    """Set all logits outside of sets to -inf.

    Args:
        logits: [N, V] of at least 32 bits, which may be overwritten.
        sets: [N, ceil(V / 32)] int32, as `kept` packs them.

    Returns:
        The logits, and which rows have -inf inside of their sets, [N] bool.
    """
    if not logits.is_cpu or logits.dtype != torch.float32:
        outside = unpacked(~sets, logits.shape[1])
        lacking = (~outside & (logits == -torch.inf)).any(1)
        return logits.masked_fill_(outside, -torch.inf), lacking
    lacking = torch.zeros(len(logits), dtype=torch.bool)
    for number, (line, count) in enumerate(zip(logits, sizes(sets).tolist(), strict=True)):
        row, bits = line.numpy(), sets[number : number + 1]
        if count * FEW <= len(row):
            # A few tokens of a long row take a tenth of the time of a mask.
            ids = tokens_of(bits)[1]
            lacking[number] = bool((row[ids] == -np.inf).any())
            keep_only(row, ids, -np.inf)
        else:
            absent = unpacked(~bits, len(row)).numpy()[0]
            # A mask would branch at each token. Twice the greatest number is infinite, and twice zero is not.
            line.add_(torch.from_numpy(absent.astype(np.float32)).mul_(-torch.finfo(torch.float32).max).mul_(2))
            lacking[number] = bool(np.count_nonzero(row == -np.inf) > np.count_nonzero(absent))
    return logits, lacking


def log_mass(before: Tensor, after: Tensor) -> Tensor:
    """Return the logarithm of the probability that the kept tokens had.

    Args:
        before: [B, V] floating point, the logits that entered the processors.
        after: [B, V] floating point, the logits after them, -inf for each token that was not kept.

    Returns:
        [B] float32, or float64 for logits of 64 bits: at most 0 (up to rounding), and -inf if no kept token had a probability.

    Raises:
        ConfigurationError: The logits are not [B, V] floating point, or differ in shape or device.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> before = torch.tensor([[0.5, 0.2, 0.3]]).log()
        >>> lk.training.log_mass(before, before.masked_fill(torch.tensor([[False, True, False]]), -torch.inf)).exp()
        tensor([0.8000])
    """
    _check_pair(before, after)
    wide = before.to(torch.promote_types(before.dtype, torch.float32))
    return log_sums(torch.where(after > -torch.inf, wide, -torch.inf)).less(log_sums(wide))


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


def log_sums(logits: Tensor, room: Tensor | None = None) -> LogSums:
    """Return the logarithm of the sum of exponentials of each row.

    Args:
        logits: [B, V] floating point of at least 32 bits.
        room: A tensor of the same shape and dtype to overwrite, or None.
    """
    if room is not None and logits.is_cpu and len(logits):
        return _sums_by_row(logits, room[0])
    top = logits.amax(1)
    # In torch on the CPU, a softmax takes half the time of a logsumexp. Its greatest probability is that of the greatest logit.
    greatest = (torch.softmax(logits, 1) if room is None else torch.softmax(logits, 1, out=room)).amax(1)
    return LogSums(top, torch.where(top == -torch.inf, 0.0, -greatest.log()))


def _sums_by_row(logits: Tensor, room: Tensor) -> LogSums:
    """Return the `log_sums` of a block on the CPU, one row after the other, so that a row stays in the fastest caches.

    Args:
        logits: [B, V].
        room: [V] of the same dtype, which may be overwritten.
    """
    found = []
    for line in logits:
        top, above = float(line.numpy().max()), 0.0
        if top != -math.inf:
            chances, greatest = exponentials(line, top, room)
            above = math.log(float(chances.sum()) / greatest)
        found.append((top, above))
    return LogSums(*torch.tensor(found, dtype=logits.dtype).unbind(1))


def _check_pair(before: Tensor, after: Tensor) -> None:
    for name, logits in (("before", before), ("after", after)):
        if not isinstance(logits, Tensor):
            raise ArgumentTypeError(f"{name} is a {type(logits).__name__}; give a torch tensor of logits, [B, V]")
        if logits.dim() != 2 or not logits.is_floating_point():
            raise ConfigurationError(
                f"{name} has shape {list(logits.shape)} and {logits.dtype}; allowed are logits [B, V] in floating point"
            )
    if before.shape != after.shape:
        raise BatchMismatch(
            f"before has shape {list(before.shape)}, but after has {list(after.shape)}; give logits of the same rows and tokens"
        )
    if before.device != after.device:
        raise ConfigurationError(
            f"before is on {before.device}, but after is on {after.device}; give both on one device"
        )
