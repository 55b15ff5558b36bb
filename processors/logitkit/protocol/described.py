"""The base class of the processors in this package, which describe themselves with class attributes, and their equality."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind, Role, add_kind
from logitkit.protocol.not_a_hook import NotAHook
from logitkit.protocol.processor import Processor

__all__ = ["Described", "per_row", "same_processor"]


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


class Described(NotAHook):
    """A processor that describes itself; see `Processor` for the attributes.

    A class with its own `kind` can be used in configurations. A frozen dataclass derived from this class has its arguments
    checked by the forms of its `kind`; a class with more checks calls `super().__post_init__()` first.
    """

    role: ClassVar[Role]
    kind: ClassVar[Kind]

    def __init_subclass__(cls) -> None:
        """Register the class for configurations, if it has its own `kind`."""
        super().__init_subclass__()
        if "kind" in cls.__dict__:
            cls.kind = replace(cls.kind, role=cls.role, make=getattr(cls, "configured", cls), made=cls)
            add_kind(cls.kind)

    def __post_init__(self) -> None:
        for name, form in self.kind.parameters.items():
            object.__setattr__(self, name, form.check(name, getattr(self, name)))


def per_row(context: Context, value: float) -> Tensor:
    """Return [B], a parameter of every row: int64 for an int, float64 for a float.

    Example:
        >>> per_row(Context.of([[], []], vocabulary_size=2), 3)
        tensor([3, 3])
    """
    dtype = torch.int64 if isinstance(value, int) else torch.float64
    return torch.full((context.batch_size,), value, dtype=dtype, device=context.device)
