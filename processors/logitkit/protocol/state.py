"""Operations on states, which are values: select rows, concatenate rows, move to another device.

A state is a NamedTuple of tensors whose first dimension is the row, or a tuple of such states (the state of a chain). Nothing
here depends on a particular processor.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeVar

import torch
from torch import Tensor

from logitkit.errors import BatchMismatch, ConfigurationError, ProcessorError
from logitkit.parameters import Form
from logitkit.protocol.portable import Checked, Joined

__all__ = ["Fill", "concatenate", "names_of", "rows_of", "select", "to", "walk"]

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Fill:
    """The value that pads a field whose trailing sizes differ between rows, given as `Annotated[Tensor, Fill(-1)]`.

    Example:
        >>> from typing import Annotated, NamedTuple
        >>> import torch
        >>> from logitkit import Fill, concatenate
        >>> class Window(NamedTuple):
        ...     tokens: Annotated[torch.Tensor, Fill(-1)]  # [B, W] int32
        >>> narrow, wide = (Window(torch.ones(1, w, dtype=torch.int32)) for w in (1, 3))
        >>> concatenate([narrow, wide]).tokens.tolist()
        [[1, -1, -1], [1, 1, 1]]
    """

    value: int | float | bool


@cache
def fills(kind: Any) -> dict[str, int | float | bool]:
    """Return the fill value of every field of a state class; 0 where none is declared."""
    return {
        name: next((mark.value for mark in marks if isinstance(mark, Fill)), 0) for name, marks in _marks(kind).items()
    }


@cache
def _marks(kind: Any) -> dict[str, tuple[Any, ...]]:
    """Return what `Annotated` says of every field of a state class."""
    names = {"Annotated": Annotated, "Fill": Fill, "Tensor": Tensor, **vars(sys.modules.get(kind.__module__, typing))}
    found: dict[str, tuple[Any, ...]] = {}
    for name in getattr(kind, "_fields", ()):
        hint = kind.__annotations__.get(name)
        # With `from __future__ import annotations`, hints are strings; evaluate only those that say more than a type.
        text = hint.__forward_arg__ if isinstance(hint, typing.ForwardRef) else hint
        if isinstance(text, str):
            hint = _evaluated(text, names, kind) if "Annotated" in text or "Fill" in text else None
        found[name] = getattr(hint, "__metadata__", ())
    return found


def problem_of(state: Any) -> str | None:
    """Say what is impossible about the values of a state that was read from a file, or return None; states in it are left out.

    Each field is checked by the form in its annotation, as in `Annotated[Tensor, Integer(0)]`. The method `problem`, if the
    class of the state has one, checks how fields agree.
    """
    kind: Any = type(state)
    for name, marks in _marks(kind).items():
        for mark in marks:
            if isinstance(mark, Form) and (problem := mark.problem(name, getattr(state, name))):
                return problem
    return state.problem() if isinstance(state, Checked) else None


def _evaluated(hint: str, names: dict[str, Any], kind: type[Any]) -> Any:
    """Evaluate a hint that is kept as a string; the error says which of its names the module lacks."""
    try:
        return eval(hint, names)  # noqa: S307 - code from the class's own source
    except NameError as error:
        raise ProcessorError(
            f"the annotation {hint!r} of the state {kind.__name__} uses {error.name!r}, which module {kind.__module__} does not "
            "define; import it at the top of that module, not inside a function"
        ) from error


def rebuild(like: Any, parts: Sequence[Any]) -> Any:
    """Return a tuple of the same type (plain or named) with other contents."""
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)


def map_tensors(state: S, fn: Callable[[Tensor], Tensor]) -> S:
    """Apply a function to every tensor of a state."""
    if isinstance(state, Tensor):
        return fn(state)  # type: ignore[return-value]
    if isinstance(state, tuple):
        return rebuild(state, [map_tensors(part, fn) for part in state])  # type: ignore[no-any-return]
    raise _foreign(state)


def walk(state: Any, path: str = "state") -> Iterator[tuple[str, Any]]:
    """Yield the path and the value of every part of a state: a tuple first, then what it holds, left to right.

    Example:
        >>> [path for path, _ in walk((torch.tensor([1]), ()))]
        ['state', 'state.0', 'state.1']
    """
    yield path, state
    if isinstance(state, tuple):
        for name, part in zip(names_of(state), state, strict=True):
            yield from walk(part, f"{path}.{name}")


def _foreign(part: object) -> ProcessorError:
    return ProcessorError(f"a state holds a {type(part).__name__}; allowed are tensors and (named) tuples of them")


def names_of(state: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the names of a named tuple's fields, or the indices of a plain one."""
    return getattr(state, "_fields", tuple(map(str, range(len(state)))))


def leaves(state: Any) -> list[Tensor]:
    """List the tensors of a state, left to right.

    Raises:
        ProcessorError: The state holds something else.
    """
    parts = [part for _, part in walk(state) if not isinstance(part, tuple)]
    for part in parts:
        if not isinstance(part, Tensor):
            raise _foreign(part)
    return parts


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
    """Return rows of a state in a new order; rows may repeat.

    Args:
        state: The state of B rows.
        rows: [R] int64 row indices from 0 to B - 1.

    Returns:
        A state of R rows; the given one is unchanged.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> state = (torch.tensor([10, 11, 12]),)
        >>> lk.select(state, torch.tensor([2, 0, 0]))[0].tolist()
        [12, 10, 10]
    """
    return map_tensors(state, lambda leaf: leaf.index_select(0, rows))


def concatenate(states: Sequence[S]) -> S:
    """Concatenate the rows of several states of the same structure.

    Trailing sizes may differ: each field is padded at the end with its declared `Fill` value.

    Args:
        states: At least one state; all must have the same structure, dtypes and devices.

    Returns:
        A state with all the rows.

    Raises:
        ConfigurationError: No state is given.
        BatchMismatch: The states differ in structure, or have rows that cannot share a batch.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> lk.concatenate([(torch.tensor([1]),), (torch.tensor([2, 3]),)])[0].tolist()
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
    joined = rebuild(first, [_concatenate([s[i] for s in states], values[i]) for i in range(len(first))])
    if _checks_joins(kind):
        joined.check_joined()
    return joined


@cache
def _checks_joins(kind: type) -> bool:
    """Whether a class of states is `Joined`, which Python would derive for each state again, in 10 µs."""
    return issubclass(kind, Joined)


def _pad(leaf: Tensor, trailing: Sequence[int], fill: float) -> Tensor:
    missing = [want - have for want, have in zip(trailing, leaf.shape[1:], strict=True)]
    if not any(missing):
        return leaf
    return torch.nn.functional.pad(leaf, [n for m in reversed(missing) for n in (0, m)], value=fill)


def to(state: S, device: torch.device | str) -> S:
    """Return a state on another device; its automata follow on first use there.

    Args:
        state: Any state.
        device: The device for its tensors.

    Returns:
        The state on that device; tensors that are already there are not copied.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> lk.to((torch.tensor([1]),), "cpu")[0].device.type
        'cpu'
    """
    return map_tensors(state, lambda leaf: leaf.to(device))
