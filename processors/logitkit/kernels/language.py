"""Triton's language, or stand-ins where Triton is not installed, so that every module of kernels can be imported."""

from __future__ import annotations

from typing import Any

__all__ = ["constant", "device_function", "is_installed", "tl", "triton"]

triton: Any = None
tl: Any = None
try:
    import triton  # type: ignore[no-redef]
    import triton.language as tl  # type: ignore[no-redef]
except ImportError:  # as with a CPU build of torch
    pass

is_installed = triton is not None


def device_function(function: Any) -> Any:
    """Make a function that kernels may call."""
    return triton.jit(function) if is_installed else function


def constant(value: int) -> Any:
    """Return a number of a module as kernels may use it."""
    return tl.constexpr(value) if is_installed else value
