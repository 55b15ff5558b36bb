"""The likeliest token, of logits on whichever device."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["likeliest", "two_likeliest"]

# What numpy reads where it lies, and searches faster than torch.
KNOWN_TO_NUMPY = (torch.float32, torch.float64)


def likeliest(logits: Tensor) -> int:
    """Return the first of the largest logits, [V]."""
    if logits.device.type == "cpu" and logits.dtype in KNOWN_TO_NUMPY:
        return int(logits.numpy().argmax())
    return int(logits.argmax())


def two_likeliest(logits: Tensor) -> tuple[int, float, float]:
    """Return the first of the largest logits, [V] of at least 2, its value, and the largest of the others.

    Args:
        logits: On the CPU; they are as they were afterwards.
    """
    values = (logits if logits.dtype in KNOWN_TO_NUMPY else logits.float()).numpy()
    place = int(values.argmax())
    first = values[place]
    values[place] = -float("inf")
    second = values.max()
    values[place] = first
    return place, float(first), float(second)
