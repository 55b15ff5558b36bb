"""The base class of the processors in this package, which describe themselves with class attributes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.kind import Kind, Role, add_kind
from logitkit.protocol.not_a_hook import NotAHook

__all__ = ["Described", "TwoPaths", "per_row"]

S = TypeVar("S", bound=tuple[Any, ...])


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


class TwoPaths(Described, Generic[S]):
    """A processor with two implementations that return the same logits. Tokens do not change its state, unless it says how.

    Subclasses define `_by_rows`, which reads values on the CPU, and `_by_tensors`, which uses tensors only, for accelerators and
    compiled graphs. Both may overwrite the logits.
    """

    def advance(self, state: S, tokens: Tensor) -> S:
        """Return the state, which tokens do not change."""
        check_tokens(type(self).__name__, _rows(state), tokens)
        return state

    def process_logits(self, state: S, logits: Tensor, context: Context) -> tuple[S, Tensor]:
        """Return the state and the processed logits; on the CPU, these are the given ones, changed in place.

        Raises:
            VocabularyError: A token id that the processor needs is not a column of the logits (on the CPU).
        """
        logits = own_rows(type(self).__name__, _rows(state), logits)
        return state, (self._by_tensors if by_tensors(logits) else self._by_rows)(state, logits)

    def _by_rows(self, state: S, logits: Tensor) -> Tensor:
        raise NotImplementedError

    def _by_tensors(self, state: S, logits: Tensor) -> Tensor:
        raise NotImplementedError


def _rows(state: Any) -> int:
    """Return the number of rows of a state without comparing its fields, which takes longer."""
    while not isinstance(state, Tensor):
        state = state[0]
    return state.shape[0]


def per_row(context: Context, value: float) -> Tensor:
    """Return [B], a parameter of every row: int64 for an int, float64 for a float.

    Example:
        >>> per_row(Context.of([[], []], vocabulary_size=2), 3)
        tensor([3, 3])
    """
    dtype = torch.int64 if isinstance(value, int) else torch.float64
    return torch.full((context.batch_size,), value, dtype=dtype, device=context.device)
