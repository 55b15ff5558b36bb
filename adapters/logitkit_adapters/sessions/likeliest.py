"""The most likely token, from logits on any device."""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["likeliest", "two_likeliest"]

# The dtypes that numpy reads in place, and searches faster than torch.
KNOWN_TO_NUMPY = (torch.float32, torch.float64)


def likeliest(logits: Tensor) -> int:
    """Return the index of the first maximum of logits, [V] or [1, V]."""
    if logits.device.type == "cpu" and logits.dtype in KNOWN_TO_NUMPY:
        return int(_values(logits).argmax())
    return int(logits.argmax())


def two_likeliest(logits: Tensor) -> tuple[int, float, float]:
    """Return the index of the first maximum of logits, [V] or [1, V], its value, and the largest other value.

    Args:
        logits: At least two values on the CPU, which stay unchanged.
    """
    values = _values(logits if logits.dtype in KNOWN_TO_NUMPY else logits.float()).reshape(-1)
    place = int(values.argmax())
    first = values[place]
    values[place] = -float("inf")
    second = values.max()
    values[place] = first
    return place, float(first), float(second)


def _values(logits: Tensor) -> NDArray[Any]:
    # Detached, because a processor may have trainable parameters.
    values: NDArray[Any] = (logits.detach() if logits.requires_grad else logits).numpy()
    return values
