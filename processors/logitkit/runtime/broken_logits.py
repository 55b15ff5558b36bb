"""Broken logits on a device, where nothing is read: the row ends, and a flag on the device says why.

See `logit_arrays` for logits on the host, and for what is broken.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["UNREAD", "broken_rows", "end_broken"]

# The reason in an error for broken logits whose values are not read.
UNREAD = "a logit is NaN or +inf, or none is finite"


def broken_rows(logits: Tensor) -> Tensor:
    """Return which rows of logits are broken, [B] bool on their device, without reading any.

    Args:
        logits: [B, V] floating point.
    """
    return ~logits.amax(1).isfinite()


def end_broken(logits: Tensor, broken: Tensor, eos_ids: Sequence[int]) -> Tensor:
    """Return logits that leave only EOS, at 0, in the broken rows, without reading any.

    Args:
        logits: [B, V] floating point, which may be overwritten.
        broken: [B] bool, on the same device.
        eos_ids: The ids that end a row.
    """
    logits = torch.where(broken[:, None], -torch.inf, logits)
    # One by one: a list of ids would be copied to the device, and the host would wait for that.
    for end in eos_ids:
        logits.select(1, end).masked_fill_(broken, 0)
    return logits
