"""Caches of transformers as lists of tensors, which may be shared, because feeding a cache creates new tensors."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer

__all__ = ["branched", "cache_of", "plain_layers"]

# The keys and values of a layer, [R, heads, columns, size]; None for a layer that uses those of another.
Layers = Sequence[tuple[Tensor, Tensor] | None]


def plain_layers(cache: Any) -> Layers | None:
    """Return the keys and values of a cache, or None if it may have dropped or changed some."""
    if type(cache) is not DynamicCache or any(type(layer) is not DynamicLayer for layer in cache.layers):
        return None
    layers: list[Any] = cache.layers
    return [(layer.keys, layer.values) if layer.is_initialized else None for layer in layers]


def cache_of(layers: Layers) -> DynamicCache:
    """Return a cache of keys and values."""
    cache, made = DynamicCache(), []
    for pair in layers:
        layer: Any = DynamicLayer()  # type: ignore[no-untyped-call]
        if pair is not None:
            layer.lazy_initialization(*pair)
            layer.keys, layer.values = pair
        made.append(layer)
    cache.layers = made
    return cache


def branched(cache: Cache) -> Cache | None:
    """Return a cache that can be fed without changing the given one, or None if it cannot be copied."""
    layers = plain_layers(cache)
    if layers is not None:
        return cache_of(layers)
    try:
        return copy.deepcopy(cache)
    except (RuntimeError, TypeError, NotImplementedError):
        return None
