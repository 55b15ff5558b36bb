"""With this folder on PYTHONPATH, Triton's kernels run on a CPU, slowly, in Triton's own interpreter.

vLLM's V2 model runner has kernels in Triton only, and falls back to V1 where Triton knows no device. So it is shown one.
"""

import inspect
import os
from functools import cache
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton.backends
from triton.backends.compiler import GPUTarget
from triton.language.core import is_builtin
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder


class Driver:
    """The properties that vLLM and Triton read from a device."""

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_target(self) -> Any:
        return GPUTarget("cpu", 0, 1)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, *_: Any) -> int:
        return 0


def with_boolean_mask(method: Any, place: int) -> Any:
    """Return a method whose mask, some kernels' integers, is made boolean: the interpreter takes no other."""

    def call(self: Any, *arguments: Any) -> Any:
        mask = arguments[place]
        mask.data = mask.data.astype(np.bool_, copy=False)
        return method(self, *arguments)

    return call


@cache
def builtin_names(package: Any) -> list[str]:
    return [name for name, member in inspect.getmembers(package) if is_builtin(member)]


def patch_builtin(package: Any, builder: Any, scope: Any) -> None:
    """Do what the interpreter does in each call of a kernel or of a function in one, without looking for names each time."""
    for name in builtin_names(package):
        member = getattr(package, name)
        if is_builtin(member):
            interpreter._patch_attr(package, name, member, builder, scope)


interpreter._patch_builtin = patch_builtin
triton.backends.backends["cpu"] = triton.backends.Backend(compiler=None, driver=Driver)
for name, place in (("create_masked_load", 1), ("create_masked_store", 2)):
    setattr(InterpreterBuilder, name, with_boolean_mask(getattr(InterpreterBuilder, name), place))
