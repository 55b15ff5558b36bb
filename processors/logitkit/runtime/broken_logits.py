"""Broken logits: NaN or +inf in a row, or no finite number, as a model returns them when its computation has failed.

`process_logits` of a processor takes NaN for -inf, as a pure function may. The code that gets logits from an engine looks at them
itself, because a mask would make them look like a choice of the model. On the host, they are an error. On a device, nothing is
read: there, the row ends, and a flag on the device says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import BrokenLogits
from logitkit.runtime.logit_arrays import BITS, greatest

__all__ = ["UNREAD", "broken_rows", "check_left", "check_row", "end_broken", "is_broken", "why_broken"]

# The reason in an error for broken logits whose values are not read.
UNREAD = "a logit is NaN or +inf, or none is finite"


def is_broken(row: NDArray[Any], never: Any) -> bool:
    """Return whether a row of logits on the host is broken; see `as_array` for the arguments."""
    if not len(row):
        return False
    if row.dtype != np.uint16:
        top = greatest(row)
        if row.strides[0] != row.itemsize and not (top < np.inf and row[0] > -np.inf):
            # That includes the numbers between llama.cpp's logits.
            top = np.maximum.reduce(row)
        return not -np.inf < top < np.inf
    # As unsigned numbers, only negative NaN is above -inf; as signed ones, +inf and NaN are above all other numbers.
    signed = row.view(np.int16)
    top = int(signed.max())
    if top >= never & 0x7FFF or row.max() > never:
        return True
    # Signed, all negative numbers are below -inf.
    return top == never - 2**16 and bool((row == never).all())


def check_row(row: NDArray[Any], never: Any, number: int) -> None:
    """Check a row of logits on the host before anything changes it.

    Args:
        row: [V] the row; see `as_array`.
        never: -inf, as it is in the row.
        number: Its number in the batch, for the error.

    Raises:
        BrokenLogits: It is broken.
    """
    if is_broken(row, never):
        raise BrokenLogits(_why(row, never), number)


def check_left(row: NDArray[Any], never: Any, number: int) -> None:
    """Check the logits that a mask leaves in a row, which may be none; the arguments are those of `check_row`.

    Raises:
        BrokenLogits: One of them is NaN or +inf.
    """
    if is_broken(row, never) and not (row == never).all():
        raise BrokenLogits(_why(row, never), number)


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


def why_broken(values: Tensor) -> str:
    """Return what is wrong with the broken logits of a row, [V], in words."""
    counts = {"NaN": int(values.isnan().sum()), "+inf": int((values == torch.inf).sum())}
    found = [f"{count:,} of {len(values):,} are {name}" for name, count in counts.items() if count]
    return " and ".join(found) or f"all {len(values):,} are -inf"


def _why(row: NDArray[Any], never: Any) -> str:
    values = torch.from_numpy(np.ascontiguousarray(row))
    if row.dtype == np.uint16:
        values = values.view(next(dtype for dtype, (bits, _) in BITS.items() if bits == never))
    return why_broken(values)
