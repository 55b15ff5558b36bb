"""What was finite stays finite: changed logits are held within the range of their dtype; infinities are left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["finite_rows", "finite_tensors"]


def finite_rows(said: NDArray[Any], changed: NDArray[Any], most: float) -> NDArray[Any]:
    """Return the changed logits, on the host.

    Args:
        said: Logits before, in 32 bits at least.
        changed: Logits after, of the same shape.
        most: The greatest finite number of their dtype.
    """
    if not (np.abs(changed) <= most).all():
        changed = np.where(np.isfinite(said), changed.clip(-most, most), changed)
    return changed


def finite_tensors(said: Tensor, changed: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the changed logits, in `dtype`; for the others see `finite_rows`."""
    most = torch.finfo(dtype).max
    return changed.clamp(said.clamp(max=-most), said.clamp(min=most)).to(dtype)
