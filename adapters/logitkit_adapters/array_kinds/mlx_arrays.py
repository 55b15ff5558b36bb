"""mlx arrays in torch and back; only ever imported when there is one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.array_kinds.torch_tensors import dense

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


def to_torch(array: Any, *, writing: bool) -> tuple[Tensor, bool, Any]:
    """Return a tensor on the memory of an mlx array, whether that is a copy, and the array.

    mlx computes the array for this. What it has yet to compute of other arrays from the same memory must not change, so that a
    tensor to be written to lies on a copy; that is an array of mlx from the start, and goes back as it is.

    Raises:
        ConfigurationError: It is of complex numbers.
    """
    dtype = DTYPES.get(array.dtype)
    if dtype is None:
        raise ConfigurationError(f"an mlx array {list(array.shape)} holds {array.dtype}; give real numbers")
    if not array.size:
        return torch.empty(array.shape, dtype=dtype), False, array
    memory = memoryview(array)
    if not memory.c_contiguous:
        own: Any = mx.contiguous(array)
        return _on_memory(memoryview(own), own.shape, dtype), True, own
    if not writing:
        return _on_memory(memory, array.shape, dtype), False, array
    shared = torch.frombuffer(memory, dtype=dtype)
    # Without a dtype, mlx would make float32 of float64. The buffer is the quicker way, but it has no name for bfloat16.
    source: Any = memory if dtype != torch.bfloat16 else shared.view(array.shape)
    own = mx.array(source, dtype=array.dtype)
    tensor = _on_memory(memoryview(own), array.shape, dtype)
    if tensor.data_ptr() == shared.data_ptr():
        # This version of mlx takes foreign memory, and so needs some that is nobody else's.
        own = mx.array(shared.view(array.shape).clone(), dtype=array.dtype)
        tensor = _on_memory(memoryview(own), array.shape, dtype)
    return tensor, True, own


def _on_memory(memory: memoryview, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return a tensor on a buffer that is laid out row by row.

    The buffer protocol is used, and not dlpack: the CPU sees the memory of every device of mlx through it, and it tells the
    strides before torch sees them, whose reader of dlpack aborts the interpreter at negative ones.
    """
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def from_torch(tensor: Tensor, like: Any) -> tuple[Any, bool]:
    """Return an mlx array of another's shape and dtype, and True: mlx takes no foreign memory."""
    # mlx reads the memory of a tensor that is only marked as negated as it is.
    return mx.array(dense(tensor)[0].cpu().reshape(like.shape), dtype=like.dtype), True
