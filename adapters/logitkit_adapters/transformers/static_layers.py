"""The layers of a `StaticCache` of transformers."""

from __future__ import annotations

import copy
from typing import Any

import torch
from transformers import StaticCache
from transformers.cache_utils import StaticLayer

from logitkit.errors import ConfigurationError

__all__ = ["check_layers", "check_writable", "layers_of", "repeated"]


def layers_of(cache: StaticCache) -> list[Any]:
    """Return the layers; transformers declares more kinds than `check_layers` allows."""
    return list(cache.layers)


def check_layers(cache: StaticCache) -> None:
    """Raise `ConfigurationError` unless all layers keep every token in its slot."""
    other = {type(layer).__name__ for layer in cache.layers if type(layer) is not StaticLayer}
    if other:
        raise ConfigurationError(
            f"the cache has layers of {', '.join(sorted(other))}; prefill needs layers that keep every token "
            "(StaticLayer). For a model with sliding windows or recurrent states, call it without prefill"
        )


def check_writable(cache: StaticCache) -> None:
    """Raise `ConfigurationError` if PyTorch would refuse to write to the tensors of the cache here."""
    layer = layers_of(cache)[0]
    tensors = (layer.cumulative_length, *((layer.keys,) if layer.is_initialized else ()))
    if any(tensor.is_inference() for tensor in tensors) and not torch.is_inference_mode_enabled():
        raise ConfigurationError(
            "the cache was created or allocated under torch.inference_mode(), so it can only be written to there; call prefill "
            "there too, or create the cache with fixed_cache"
        )


def repeated(layer: Any, samples: int) -> Any:
    """Return an independent layer that contains each row several times, one after another."""
    other = copy.copy(layer)
    other.keys = layer.keys.repeat_interleave(samples, 0)
    other.values = layer.values.repeat_interleave(samples, 0)
    other.cumulative_length = layer.cumulative_length.clone()
    other.batch_size = layer.batch_size * samples
    for tensor in (other.keys, other.values, other.cumulative_length):
        torch._dynamo.mark_static_address(tensor)  # noqa: SLF001 - as transformers does, for CUDA graphs
    return other
