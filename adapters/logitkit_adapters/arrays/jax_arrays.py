"""Conversion between torch tensors and JAX arrays; imported only if there is a JAX array.

JAX arrays never change, so a tensor that will be written to is a copy. It comes back as a JAX array on the memory of that copy.
"""

from __future__ import annotations

from typing import Any

import jax
import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.arrays.torch_tensors import dense

__all__ = ["from_torch", "to_torch"]


def to_torch(array: Any, *, writing: bool) -> tuple[Tensor, bool, None]:
    """Return a tensor of a JAX array, which waits for the array to be computed; whether it is a copy; and None.

    Raises:
        ConfigurationError: The array is traced, for example inside `jax.jit`, and so has no values; or it is spread over several
            devices; or torch does not support its dtype or its device.
    """
    shape = list(array.shape)
    if isinstance(array, jax.core.Tracer):
        raise ConfigurationError(
            f"the JAX array {shape} has no values yet, because JAX is tracing a function; return the logits from the function "
            "that jax.jit compiles, and process them outside"
        )
    if not array.is_fully_addressable or len(array.devices()) != 1:
        raise ConfigurationError(
            f"the JAX array {shape} is spread over {len(array.devices())} devices; bring it to one with jax.device_put"
        )
    try:
        shared = torch.utils.dlpack.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"torch cannot read the JAX array {shape} of {array.dtype}: {error}; convert it to a floating point dtype of 16, 32 "
            "or 64 bits (or to integers, for ids) on a device that torch supports"
        ) from error
    return (shared.clone(memory_format=torch.contiguous_format), True, None) if writing else (shared, False, None)


def from_torch(tensor: Tensor, like: Any) -> tuple[Any, bool]:
    """Return a JAX array on the memory of a tensor, in the shape of another array, and whether it is a copy."""
    own, copied = dense(tensor)
    whole = own.reshape(like.shape).contiguous()
    return jax.dlpack.from_dlpack(whole), copied or whole.data_ptr() != own.data_ptr()
