"""Conversion between torch and mlx arrays; imported only if there is an mlx array."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.arrays.torch_tensors import dense

__all__ = ["from_torch", "to_torch"]

# Both libraries give numbers the same names.
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = {mx.bool_: torch.bool} | {getattr(mx, name): getattr(torch, name) for name in (*FLOATS, *INTEGERS)}


def to_torch(array: Any, *, writing: bool) -> tuple[Tensor, bool, Any]:
    """Return a tensor on the memory of an mlx array, whether it is a copy, and the array.

    This makes mlx compute the array. Pending operations on the same memory must not see changes, so a writable tensor gets a
    copy. The copy is an mlx array from the start, and can be returned without another copy.

    Raises:
        ConfigurationError: The array contains complex numbers.
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
    # Without a dtype, mlx would convert float64 to float32. The buffer protocol is faster, but does not support bfloat16.
    source: Any = memory if dtype != torch.bfloat16 else shared.view(array.shape)
    own = mx.array(source, dtype=array.dtype)
    tensor = _on_memory(memoryview(own), array.shape, dtype)
    if tensor.data_ptr() == shared.data_ptr():
        # This version of mlx can use foreign memory, so the memory must not be shared with anything else.
        own = mx.array(shared.view(array.shape).clone(), dtype=array.dtype)
        tensor = _on_memory(memoryview(own), array.shape, dtype)
    return tensor, True, own


def _on_memory(memory: memoryview, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return a tensor on a row-major buffer.

    This uses the buffer protocol instead of dlpack, for two reasons: it makes the memory of every mlx device visible to the
    CPU, and it exposes the strides before torch sees them. torch's dlpack import aborts the interpreter on negative strides.
    """
    return torch.frombuffer(memory, dtype=dtype).view(shape)


def from_torch(tensor: Tensor, like: Any) -> tuple[Any, bool]:
    """Return an mlx array with the shape and dtype of another, and True, because mlx cannot use foreign memory."""
    # mlx would read the raw memory of a tensor that is only marked as negated.
    return mx.array(dense(tensor)[0].cpu().reshape(like.shape), dtype=like.dtype), True
