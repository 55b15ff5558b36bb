"""States are values: pick rows of them, join them, move them.

A state is a NamedTuple of tensors whose leading dimension is the row, or a tuple of such states (that of a chain). Nothing here
knows any processor.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError, ProcessorError

__all__ = ["Fill", "concatenate", "rows_of", "select", "to"]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Fill:
    """The value that pads a field whose trailing sizes differ between rows, given as `Annotated[Tensor, Fill(-1)]`.

    Example:
        >>> from typing import Annotated, NamedTuple
        >>> class Window(NamedTuple):
        ...     tokens: Annotated[Tensor, Fill(-1)]  # [B, W] int32
        >>> narrow, wide = (Window(torch.ones(1, w, dtype=torch.int32)) for w in (1, 3))
        >>> concatenate([narrow, wide]).tokens.tolist()
        [[1, -1, -1], [1, 1, 1]]
    """

    value: int | float | bool


@cache
def fills(kind: type[Any]) -> dict[str, int | float | bool]:
    """Return the fill value of every field of a state class; 0 where none is declared."""
    names = {"Annotated": Annotated, "Fill": Fill, "Tensor": Tensor, **vars(sys.modules.get(kind.__module__, typing))}
    values: dict[str, int | float | bool] = {}
    for name in getattr(kind, "_fields", ()):
        hint = kind.__annotations__.get(name)
        # Under `from __future__ import annotations` a hint is text; only one that declares a fill is worth evaluating.
        text = hint.__forward_arg__ if isinstance(hint, typing.ForwardRef) else hint
        if isinstance(text, str):
            hint = eval(text, names) if "Fill" in text else None  # noqa: S307 - the class's own source
        marks = [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, Fill)]
        values[name] = marks[0].value if marks else 0
    return values


def rebuild(like: Any, parts: Sequence[Any]) -> Any:
    """Return a tuple of the same kind (plain or named) with other contents."""
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


def map_tensors(state: S, fn: Callable[[Tensor], Tensor]) -> S:
    """Apply a function to every tensor of a state."""
    if isinstance(state, Tensor):
        return fn(state)  # type: ignore[return-value]
    if isinstance(state, tuple):
        return rebuild(state, [map_tensors(part, fn) for part in state])  # type: ignore[no-any-return]
    raise ProcessorError(f"a state holds a {type(state).__name__}; allowed are tensors and (named) tuples of them")


def leaves(state: Any) -> list[Tensor]:
    """List the tensors of a state, left to right."""
    found: list[Tensor] = []

    def see(leaf: Tensor) -> Tensor:
        found.append(leaf)
        return leaf

    map_tensors(state, see)
    return found


def rows_of(state: Any) -> int | None:
    """Return the number of rows of a state, or None for a state without tensors.

    Raises:
        BatchMismatch: Two fields have different leading sizes.
    """
    sizes = {leaf.shape[0] if leaf.dim() else -1 for leaf in leaves(state)}
    if len(sizes) > 1:
        raise BatchMismatch(f"the fields of a state have different numbers of rows: {sorted(sizes)}")
    return sizes.pop() if sizes else None


def select(state: S, rows: Tensor) -> S:
    """Return some rows of a state, in a new order; rows may repeat.

    Args:
        state: The state of B rows.
        rows: [R] int64 row indices from 0 to B - 1.

    Returns:
        A state of R rows; the given one is unchanged.

    Example:
        >>> state = (torch.tensor([10, 11, 12]),)
        >>> select(state, torch.tensor([2, 0, 0]))[0].tolist()
        [12, 10, 10]
    """
    return map_tensors(state, lambda leaf: leaf.index_select(0, rows))


def concatenate(states: Sequence[S]) -> S:
    """Put the rows of several states of one structure after one another.

    Trailing sizes may differ: each field is padded at the end with its declared `Fill` value.

    Args:
        states: At least one state; all of one structure and of equal dtypes and devices.

    Returns:
        A state with the rows of all.

    Raises:
        ConfigurationError: No state is given.
        BatchMismatch: The states differ in structure.

    Example:
        >>> concatenate([(torch.tensor([1]),), (torch.tensor([2, 3]),)])[0].tolist()
        [1, 2, 3]
    """
    if not states:
        raise ConfigurationError("concatenate got no states; give at least one")
    joined: S = _concatenate(states, 0)
    return joined


def _concatenate(states: Sequence[Any], fill: float) -> Any:
    first = states[0]
    if isinstance(first, Tensor):
        if any(not isinstance(s, Tensor) or s.dim() != first.dim() or s.dtype != first.dtype for s in states):
            raise BatchMismatch("cannot concatenate states whose fields differ in kind, dtype or number of dimensions")
        width = [max(s.shape[d] for s in states) for d in range(1, first.dim())]
        return torch.cat([_pad(s, width, fill) for s in states])
    if any(type(s) is not type(first) or len(s) != len(first) for s in states):
        names = ", ".join(sorted({type(s).__name__ for s in states}))
        raise BatchMismatch(
            f"cannot concatenate states of different structure: {names}; they must be of one processor kind"
        )
    kind: Any = type(first)
    values = list(fills(kind).values()) if hasattr(first, "_fields") else [0] * len(first)
    return rebuild(first, [_concatenate([s[i] for s in states], values[i]) for i in range(len(first))])


def _pad(leaf: Tensor, trailing: Sequence[int], fill: float) -> Tensor:
    missing = [want - have for want, have in zip(trailing, leaf.shape[1:], strict=True)]
    if not any(missing):
        return leaf
    return torch.nn.functional.pad(leaf, [n for m in reversed(missing) for n in (0, m)], value=fill)


def to(state: S, device: torch.device | str) -> S:
    """Return a state on another device; automata follow by themselves on first use there.

    Args:
        state: Any state.
        device: Where its tensors shall be.

    Returns:
        The state there (the same tensors where they are there already).

    Example:
        >>> to((torch.tensor([1]),), "cpu")[0].device.type
        'cpu'
    """
    return map_tensors(state, lambda leaf: leaf.to(device))
