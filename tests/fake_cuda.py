"""Tensors on a CUDA device that is not there: shapes and dtypes without data, so that reading a value on the host is an error.

`FakeTensorMode` of torch does that. A build of torch for CPUs lacks the guards of CUDA devices, which some operations of Python's
`Tensor` ask for; inside `fake_cuda` these go to the operators themselves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

__all__ = ["CopiedToDevice", "NoCopies", "fake_cuda"]

aten = torch.ops.aten

# The names of Python's operators among torch's operations.
SPELLED = {"__invert__": "bitwise_not", "__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor"}


class CopiedToDevice(AssertionError):
    """Values of the host were copied to the device, for which the host waits."""


@contextmanager
def fake_cuda() -> Iterator[torch.device]:
    """Let tensors be made on the device that is given; whatever reads their values raises `DataDependentOutputException`."""
    with FakeTensorMode(allow_non_fake_inputs=True), _WithoutGuards():
        yield torch.device("cuda")


class NoCopies(TorchFunctionMode):
    """Inside `fake_cuda`: whatever copies values of the host to the device raises `CopiedToDevice`."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if _copies(func, args, kwargs):
            raise CopiedToDevice(f"{func.__name__} copies values of the host to the device")
        return func(*args, **kwargs)


class _WithoutGuards(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (Tensor.to, Tensor.cuda):
            device, dtype = _asked(args[1:], kwargs)
            here = device is not None and device.type == args[0].device.type == "cuda"
            if here and dtype in (None, args[0].dtype):
                return args[0]
            if device is not None and device.type == "cuda" and args[0].device.type != "cuda":
                return aten._to_copy(args[0], device=device, dtype=dtype or args[0].dtype)
        if func is Tensor.copy_ and args[0].device.type == "cuda":
            return aten.copy_(*args, **kwargs)
        if func is Tensor.__getitem__ and args[0].device.type == "cuda":
            return _selected(args[0], args[1])
        if func is Tensor.__setitem__ and args[0].device.type == "cuda":
            return _write(*args)
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if "not linked with support for cuda" not in str(error):
                raise
            # torch's own definition of the operation in Python, of operators that need no guard.
            defined = getattr(torch._refs, SPELLED.get(func.__name__, func.__name__), None)
            if defined is None:
                raise
            return defined(*args, **kwargs)


def _copies(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    """Whether a call copies values of the host to the device."""
    if func in (torch.tensor, torch.as_tensor):
        device = kwargs.get("device")
        return device is not None and torch.device(device).type == "cuda"
    if func in (Tensor.to, Tensor.cuda) and args[0].device.type == "cpu":
        device, _ = _asked(args[1:], kwargs)
        return device is not None and device.type == "cuda"
    return False


def _asked(args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[torch.device | None, torch.dtype | None]:
    """Return the device and the dtype that `to` was given."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    for value in args:
        if isinstance(value, Tensor):
            return value.device, value.dtype
        if isinstance(value, torch.dtype):
            dtype = value
        elif isinstance(value, str | torch.device):
            device = value
    return (None if device is None else torch.device(device)), dtype


def _view(values: Tensor, key: Any) -> tuple[Tensor, list[Tensor | None]]:
    """Apply what a key has of integers, slices, None and `...`; return the view, and the tensors that are left to index it."""
    parts = key if isinstance(key, tuple) else (key,)
    taken = sum(
        p.dim() if isinstance(p, Tensor) and p.dtype == torch.bool else p is not None for p in parts if p is not ...
    )
    left: list[Tensor | None] = []
    for part in parts:
        dim = len(left)
        if isinstance(part, Tensor):
            left += [part] + [None] * (part.dim() - 1 if part.dtype == torch.bool else 0)
        elif part is None:
            values, left = values.unsqueeze(dim), [*left, None]
        elif part is ...:
            left += [None] * (values.dim() - dim - (taken - sum(x is not None for x in left)))
        elif isinstance(part, slice):
            if part != slice(None):
                stop = sys.maxsize if part.stop is None else part.stop
                values = aten.slice(values, dim, part.start or 0, stop, part.step or 1)
            left.append(None)
        else:
            values = aten.select(values, dim, int(part))
    return values, left


def _selected(values: Tensor, key: Any) -> Tensor:
    view, left = _view(values, key)
    tensors = any(x is not None for x in left)
    return aten.index(view, left) if tensors else view


def _write(values: Tensor, key: Any, written: Any) -> None:
    view, left = _view(values, key)
    given = (
        written if isinstance(written, Tensor) else torch.full((), written, dtype=values.dtype, device=values.device)
    )
    if any(x is not None for x in left):
        aten.index_put_(view, left, given.to(values.dtype))
    else:
        aten.copy_(view, given)
