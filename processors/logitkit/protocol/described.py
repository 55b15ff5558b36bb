"""The base class of the processors in this package, which describe themselves with class attributes."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind, Role, add_kind
from logitkit.protocol.not_a_hook import NotAHook

__all__ = ["Described", "per_row"]


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
