"""Tensors in torch, on any device."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.array_kinds.overlap import overlaps

__all__ = ["from_torch", "to_torch"]


def to_torch(array: Tensor, *, writing: bool) -> tuple[Tensor, bool, Tensor]:
    """Return a tensor that needs no gradient and may be written to, whether it is a copy, and itself.

    Raises:
        ConfigurationError: It is sparse, nested, quantized, or on the device `meta`.
    """
    if array.layout != torch.strided or array.is_nested or array.is_quantized or array.device.type == "meta":
        shape = "nested" if array.is_nested else list(array.shape)
        raise ConfigurationError(
            f"a tensor, {shape}, of {array.dtype} is not dense, or has no values; convert it before"
        )
    # To write to a tensor that requires grad would falsify a gradient, or change a weight.
    unsafe = writing and (
        array.requires_grad
        or array.is_neg()
        or (array.is_inference() and not torch.is_inference_mode_enabled())
        or overlaps(array.shape, array.stride(), 1)
    )
    if not unsafe:
        return array.detach() if array.requires_grad else array, False, array
    own = torch.empty(array.shape, dtype=array.dtype, device=array.device).copy_(array.detach())
    return own, True, own


def from_torch(tensor: Tensor, like: Tensor) -> tuple[Tensor, bool]:
    """Return a tensor in the shape of another, and False: it is on the same memory."""
    return tensor.reshape(like.shape), False
