"""Conversion between torch and numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.arrays.array_memory import overlaps
from logitkit_adapters.arrays.torch_tensors import dense

__all__ = ["from_torch", "to_torch"]

# The dtypes in this machine's byte order.
PLAIN = {np.dtype(kind) for kind in (np.float32, np.int32, np.int64)}


def to_torch(array: NDArray[Any], *, writing: bool) -> tuple[Tensor, bool, NDArray[Any] | None]:
    """Return a tensor on an array's memory, or on a copy if torch cannot or must not use it; whether it is a copy; the array.

    Raises:
        ConfigurationError: The array is a subclass with its own rules, or torch does not support its dtype.
    """
    if type(array) is np.ndarray and _is_plain(array):
        return torch.from_numpy(array), False, array
    if type(array) not in (np.ndarray, np.memmap):
        raise ConfigurationError(
            f"a {type(array).__name__} {list(array.shape)} is an instance of a subclass; give a plain numpy.ndarray"
        )
    flags, strides, size = array.flags, array.strides, array.itemsize
    # torch does not know that an array is read-only, and aborts the interpreter on negative strides imported by dlpack. A
    # result of `numpy.broadcast_arrays` warns when asked whether it is writable, so that comes last.
    copied = not (
        array.dtype.isnative
        and all(stride >= 0 and stride % size == 0 for stride in strides)
        and not (writing and overlaps(array.shape, strides, size))
        and flags.aligned
        and flags.writeable
    )
    swapped = not array.dtype.isnative
    try:
        if copied:
            array = array.astype(array.dtype.newbyteorder("="), order="C", subok=False, copy=True)
        if _is_bfloat16(array.dtype):
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16), copied, array
        return torch.from_numpy(array), copied, None if swapped else array
    except TypeError as error:
        raise ConfigurationError(
            f"the numpy array {list(array.shape)} has the dtype {array.dtype}, which torch does not support; convert it first"
        ) from error


def _is_plain(array: NDArray[Any]) -> bool:
    """Whether an array has the usual form of floats or ids, so that no other checks are needed."""
    return (
        array.dtype in PLAIN
        # numpy calls an axis of one element contiguous whatever its stride.
        and array.strides[-1] == array.itemsize
        and (array.ndim == 1 or array.strides[0] == array.shape[1] * array.itemsize)
        and array.flags.carray
    )


def _is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is bfloat16. numpy has no such dtype; JAX and ONNX use that of the package ml_dtypes."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def from_torch(tensor: Tensor, like: NDArray[Any]) -> tuple[NDArray[Any], bool]:
    """Return a writable array with another's shape and byte order, and whether it is a copy."""
    own, copied = dense(tensor)
    if _is_bfloat16(like.dtype):
        bits: NDArray[Any] = own.cpu().view(torch.int16).numpy()
        return bits.view(like.dtype).reshape(like.shape), copied or not tensor.is_cpu
    array = own.cpu().numpy().reshape(like.shape)
    return array.astype(like.dtype, copy=False), copied or not like.dtype.isnative or not tensor.is_cpu
