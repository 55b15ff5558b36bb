"""Kernels on a CPU, in Triton's interpreter, where tensor operations or rows on the host would run otherwise.

The interpreter runs one program after another, and all threads of a program in step. So it cannot show a race. The kernels say
where threads or programs share memory, and why their order does not matter.
"""

from __future__ import annotations

import inspect
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any
from unittest import mock

import numpy as np
import torch

# Read when Triton is imported; campaigns have no `conftest.py`, which sets it too.
os.environ.setdefault("TRITON_INTERPRET", "1")

import triton.language as tl
from torch import Tensor
from triton.language.core import is_builtin
from triton.runtime import interpreter

from logitkit.kernels import parts, switch
from logitkit.kernels.kernel import Kernel
from tests.batches import tensor_path

__all__ = ["faster", "kernels"]


@cache
def _builtin_names(package: Any) -> list[str]:
    return [name for name, member in inspect.getmembers(package) if is_builtin(member)]


def _patch_builtin(package: Any, builder: Any, scope: Any) -> None:
    for name in _builtin_names(package):
        member = getattr(package, name)
        if is_builtin(member):
            interpreter._patch_attr(package, name, member, builder, scope)


@cache
def _spoken(function: Any) -> frozenset[str]:
    """Return the modules of the language that a function names."""
    return frozenset(value.__name__ for value in function.__globals__.values() if value is tl or value is tl.core)


class _Once:
    """Patch the language once in each launch of a kernel, and not again in each call of a function in it."""

    def __init__(self) -> None:
        self.patched: set[str] = set()
        self._patch = interpreter._patch_lang

    def __call__(self, function: Any) -> Any:
        spoken = _spoken(function)
        if spoken <= self.patched:
            return None
        outermost, scope = not self.patched, self._patch(function)
        self.patched |= spoken
        restore = scope.restore

        def restored() -> None:
            self.patched.clear()
            restore()

        if outermost:
            scope.restore = restored
        return scope


def faster() -> None:
    """Let the interpreter look for names of operations once, instead of in each call of a kernel or of a function in one."""
    interpreter._patch_builtin = _patch_builtin
    if not isinstance(interpreter._patch_lang, _Once):
        interpreter._patch_lang = _Once()


def _maximum(self: Any, one: Any, other: Any) -> Any:
    return self.binary_op(one, other, np.fmax)


def _with_boolean_mask(method: Any, place: int) -> Any:
    """Return a method whose mask is made boolean: later versions make integers of some masks, and then refuse them."""

    def call(self: Any, *arguments: Any) -> Any:
        mask = arguments[place]
        mask.data = mask.data.astype(np.bool_, copy=False)
        return method(self, *arguments)

    return call


def _narrowed(self: Any, source: Any, kind: Any) -> Any:
    """Round to the nearest number, as devices do. The interpreter cuts the bits off that bfloat16 lacks."""
    if kind.scalar != tl.bfloat16:
        return self.cast_impl(source, kind)
    wide = torch.from_numpy(np.ascontiguousarray(source.data, np.float32))
    return interpreter.TensorHandle(wide.bfloat16().view(torch.uint16).numpy(), kind.scalar)


builder = interpreter.InterpreterBuilder
builder.create_fp_trunc = _narrowed
# Like devices, and the interpreter of later versions: the greater of a number and NaN is the number.
builder.create_maxnumf = _maximum
for name, place in (("create_masked_load", 1), ("create_masked_store", 2)):
    setattr(builder, name, _with_boolean_mask(getattr(builder, name), place))


def _same_device(state: Tensor, given: Tensor) -> bool:
    """As `switch.runs_on`, where all devices have kernels."""
    return state.device == given.device


@contextmanager
def kernels(strip: int = 32, strips: int = 2, classes: int = 64, programs: int = 1) -> Iterator[Counter[str]]:
    """Run kernels, with small blocks, so that rows have several.

    Args:
        strip: Columns in a strip.
        strips: Strips in a block.
        classes: Classes at a time.
        programs: How many programs the device has room for.

    Yields:
        How often each kernel was started.
    """
    started: Counter[str] = Counter()
    launch = Kernel.launch

    def counted(self: Kernel, *arguments: Any, **options: Any) -> bool:
        started[self.name] += 1
        # Devices compute infinities and NaN without a word.
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # The interpreter makes numbers of arrays with one.
            warnings.filterwarnings("ignore", "Conversion of an array", DeprecationWarning)
            assert launch(self, *arguments, **options), "not started, so tensor operations would run"
        return True

    small: dict[str, Any] = {
        "STRIP": strip,
        "STRIPS": strips,
        "CLASSES_AT_A_TIME": classes,
        "_programs": lambda device: programs,
    }
    with (
        tensor_path(),
        mock.patch.object(switch, "runs_on", _same_device),
        mock.patch.multiple(parts, **small),
        mock.patch.object(Kernel, "launch", counted),
    ):
        yield started


faster()
