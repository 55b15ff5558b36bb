"""mlx arrays in torch and back; only ever imported when there is one."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError

__all__ = ["from_torch", "to_torch"]

DTYPES = {
    mx.float16: torch.float16,
    mx.bfloat16: torch.bfloat16,
    mx.float32: torch.float32,
    mx.float64: torch.float64,
    mx.bool_: torch.bool,
    mx.int8: torch.int8,
    mx.int16: torch.int16,
    mx.int32: torch.int32,
    mx.int64: torch.int64,
    mx.uint8: torch.uint8,
    mx.uint16: torch.uint16,
    mx.uint32: torch.uint32,
    mx.uint64: torch.uint64,
}


def to_torch(array: Any, *, writing: bool) -> tuple[Tensor, bool]:
    """Return a tensor on the memory of an mlx array, or on a copy where it will be written to, and whether it is a copy.

    mlx computes the array for this; what it has yet to compute of other arrays from the same memory must not change. The buffer
    protocol is used, and not dlpack: the CPU sees the memory of every device of mlx through it, and it tells the strides before
    torch sees them, whose reader of dlpack aborts the interpreter at negative ones.

    Raises:
        ConfigurationError: It is of complex numbers.
    """
    dtype = DTYPES.get(array.dtype)
    if dtype is None:
        raise ConfigurationError(f"an mlx array {list(array.shape)} holds {array.dtype}; give real numbers")
    if not array.size:
        return torch.empty(array.shape, dtype=dtype), False
    memory = memoryview(array)
    copied = not memory.c_contiguous
    if copied:
        contiguous: Any = mx.contiguous(array)
        memory = memoryview(contiguous)
    tensor = torch.frombuffer(memory, dtype=dtype).view(array.shape)
    return (tensor.clone(), True) if writing and not copied else (tensor, copied)


def from_torch(tensor: Tensor, like: Any) -> tuple[Any, bool]:
    """Return an mlx array of another's shape and dtype, and True: mlx takes no foreign memory."""
    # Without a dtype, mlx would make float32 of float64.
    return mx.array(tensor.detach().cpu().reshape(like.shape), dtype=like.dtype), True
