"""A sequence in transformers: one row, with its keys and values in a `Cache`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from logitkit_adapters.sessions.array_caches import ArraySequence, Layers, Segment
from logitkit_adapters.transformers.model import TransformersModel
from logitkit_adapters.transformers.rope import KeyRotation

__all__ = ["TransformersEngine", "TransformersSequence"]


class TransformersSequence(ArraySequence):
    """A sequence in transformers; see `CachedSequence` for its methods."""

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model and return float32 logits."""
        engine = self._engine
        ids = torch.tensor([list(tokens)], dtype=torch.int64, device=engine.model.device)
        options: dict[str, Any] = {
            engine.cache_argument: self.cache,
            **engine.positions(self.length, self.length + len(tokens)),
        }
        if not all_positions:
            options |= engine.last_only
        with torch.no_grad():
            output = engine.model(input_ids=ids, use_cache=True, **options)
        self._count(tokens)
        logits: Tensor = output.logits[0] if all_positions else output.logits[0, -1]
        return logits.to(torch.float32, copy=True)


class TransformersEngine(TransformersModel):
    """A causal language model of transformers; see `SequenceEngine` for its methods.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None if all prompts are token ids.
        make_cache: Returns the empty cache of one sequence; default: the cache that `generate` makes.

    Raises:
        ConfigurationError: The model has an encoder, or no cache.
    """

    sequence = TransformersSequence

    def __init__(self, model: Any, tokenizer: Any = None, make_cache: Callable[[], Any] | None = None) -> None:
        super().__init__(model, tokenizer)
        self.make_cache = make_cache or (lambda: DynamicCache(config=model.config))
        self.rotation = KeyRotation(model)

    def can_continue(self, cache: Any) -> bool:
        """Return whether continuing a cache gives the same result as a run over all tokens at once.

        It does with a sliding window. It does not with quantisation, because a run at once attends before it quantises.
        """
        kinds = (DynamicLayer, DynamicSlidingWindowLayer)
        return type(cache) is DynamicCache and all(type(layer) in kinds for layer in cache.layers)

    def plain_layers(self, cache: Any) -> Layers | None:
        """Return the tensors of a plain cache, or None unless it holds the keys and values of all positions, unchanged."""
        layers: list[Any] = getattr(cache, "layers", [])
        if type(cache) is not DynamicCache or any(type(layer) is not DynamicLayer for layer in layers):
            return None
        return tuple((layer.keys, layer.values) for layer in layers)

    def cache_of(self, segments: Sequence[Segment]) -> Any:
        """Return a cache of consecutive segments."""
        cache = self.make_cache()
        for place, parts in enumerate(zip(*(segment.layers for segment in segments), strict=True)):
            keys, values = (torch.cat(part, 2) if len(part) > 1 else part[0] for part in zip(*parts, strict=True))
            cache.update(keys, values, place)
        return cache

    def cut(self, cache: Any, length: int) -> None:
        """Remove all but the first positions."""
        for layer in cache.layers:
            layer.keys, layer.values = layer.keys[:, :, :length], layer.values[:, :, :length]

    def owned(self, layers: Layers) -> Layers:
        """Return copies of slices."""
        return tuple((keys.clone(), values.clone()) for keys, values in layers)
