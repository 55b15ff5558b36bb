"""Equality of processors whose fields may be tensors, which have no single truth value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from logitkit.protocol.processor import Processor

__all__ = ["same_processor"]


def same_processor(one: Processor[Any] | None, other: Processor[Any] | None) -> bool:
    """Return whether two processors are equal; tensors and arrays in their fields are compared by value.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Weighted:
        ...     weights: Tensor
        >>> a, b, c = (Weighted(torch.tensor(values)) for values in ([1.0, 2.0], [1.0, 2.0], [1.0, 3.0]))
        >>> same_processor(a, b), same_processor(a, c)
        (True, False)
    """
    try:
        return bool(one == other)
    except (RuntimeError, ValueError):  # raised by the truth value of a tensor or an array
        return _same(one, other)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.dtype == other.dtype and torch.equal(one.cpu(), other.cpu())
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if is_dataclass(one):
        return all(_same(getattr(one, f.name), getattr(other, f.name)) for f in fields(one) if f.compare)
    return bool(one == other)
