"""Which tokens a sampler kept, as bits, and how much probability they had.

A set of tokens is a row of bits: see `logitkit.runtime.token_bits`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import ArgumentTypeError, BatchMismatch, ConfigurationError
from logitkit.runtime.host_logits import keep_only
from logitkit.runtime.token_bits import legal_tokens, packed, sizes, tokens_of, unpacked
from logitkit.training.log_sums import log_sums

__all__ = ["kept", "log_mass", "restrict", "restrict_row"]

# A set with at most this part of the tokens is read and written token by token.
FEW = 16

# [256, 8], what the logits of eight tokens may be, given the byte of their bits.
_CEILINGS = np.where(np.arange(256)[:, None] >> np.arange(8) & 1, np.float32(np.inf), np.float32(-np.inf))


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
        row = line.numpy()
        restrict_row(row, sets[number], count)
        lacking[number] = bool(np.count_nonzero(row == -np.inf) > len(row) - count)
    return logits, lacking


def restrict_row(row: NDArray[Any], bits: Tensor, count: int) -> None:
    """Set all logits of a row on the CPU outside of a set to -inf.

    Args:
        row: [V] of at least 32 bits.
        bits: [ceil(V / 32)] int32, the set.
        count: How many tokens it has.
    """
    # A few tokens of a long row take a tenth of the time of a mask.
    if count * FEW <= len(row):
        keep_only(row, tokens_of(bits[None])[1], -np.inf)
    else:
        # Eight tokens at a time. A mask of bools would branch at each token.
        ceiling = np.take(_CEILINGS, np.ascontiguousarray(bits.numpy(), "<i4").view(np.uint8), axis=0).reshape(-1)
        np.minimum(row, ceiling[: len(row)], out=row)


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


def _check_pair(before: Tensor, after: Tensor) -> None:
    for name, logits in (("before", before), ("after", after)):
        if not isinstance(logits, Tensor):
            raise ArgumentTypeError(f"{name} is of type {type(logits).__name__}; give a torch tensor of logits, [B, V]")
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
