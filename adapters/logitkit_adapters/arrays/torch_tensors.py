"""Conversion of torch tensors on any device."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.arrays.array_memory import overlaps

__all__ = ["dense", "from_torch", "to_torch"]

PLAIN = (Tensor, torch.nn.Parameter, torch.nn.Buffer)


def to_torch(array: Tensor, *, writing: bool) -> tuple[Tensor, bool, Tensor]:
    """Return a plain, writable tensor without a gradient, whether it is a copy, and the array on its memory.

    Raises:
        ConfigurationError: The tensor is sparse, nested, quantized, on the device `meta`, of a class that overrides
            computation, or its memory has been released.
    """
    given = array
    if type(array) not in PLAIN:
        array = _plain(array)
    if array.layout != torch.strided or array.is_nested or array.is_quantized or not _has_memory(array):
        shape = "nested" if array.is_nested else list(array.shape)
        raise ConfigurationError(
            f"the tensor {shape} of {array.dtype} is not dense or has no values; give a dense tensor with values"
        )
    # Writing to a tensor that requires grad would falsify a gradient or change a weight. And numpy, which reads ids, does not
    # support tensors that are only marked as negated.
    is_frozen = array.is_inference() and not torch.is_inference_mode_enabled()
    unsafe = writing and (array.requires_grad or is_frozen or overlaps(array.shape, array.stride(), 1))
    if not unsafe and not array.is_neg():
        return array.detach() if array.requires_grad else array, False, given
    own = _own(array)
    return own, True, own


def from_torch(tensor: Tensor, like: Tensor) -> tuple[Tensor, bool]:
    """Return a writable tensor in the shape of another, and whether it is a copy."""
    own, copied = dense(tensor)
    return own.reshape(like.shape), copied


def dense(tensor: Tensor) -> tuple[Tensor, bool]:
    """Return a tensor whose memory holds each of its values once, without a gradient, and whether it is a copy."""
    own = tensor.detach()
    if own.is_neg() or overlaps(own.shape, own.stride(), 1):
        return _own(own), True
    return own, False


def _own(array: Tensor) -> Tensor:
    return torch.empty(array.shape, dtype=array.dtype, device=array.device).copy_(array.detach())


def _plain(array: Tensor) -> Tensor:
    """Return a plain tensor on the memory of a tensor subclass."""
    kind: Any = type(array)
    if kind.__torch_dispatch__ is not Tensor.__torch_dispatch__:
        raise ConfigurationError(f"a {kind.__name__} {list(array.shape)} is not a plain tensor; give torch.Tensor")
    with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 (documented, with no other name)
        return array.as_subclass(Tensor)


def _has_memory(array: Tensor) -> bool:
    """Whether the memory holds all values: some libraries take it away from a tensor, and torch then reads past its end."""
    if array.device.type == "meta":
        return False
    try:
        room = array.untyped_storage().nbytes()
    except (NotImplementedError, RuntimeError):
        return False
    last = sum(stride * (size - 1) for stride, size in zip(array.stride(), array.shape, strict=True))
    return not array.numel() or (array.storage_offset() + last + 1) * array.itemsize <= room
