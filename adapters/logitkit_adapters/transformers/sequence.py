"""A sequence in transformers: one row, with its keys and values in a `Cache`, which can move to other positions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions.array_caches import ArraySequence, Layers, Segment, cannot_shift, is_near
from logitkit_adapters.transformers.model import TransformersModel

__all__ = ["KeyRotation", "TransformersEngine", "TransformersSequence"]

# Their frequencies depend on the length of the sequence, so that earlier keys become wrong when it grows.
BY_LENGTH = ("dynamic", "longrope")


class KeyRotation:
    """The rotary position embedding of a model, the same in all layers; see `Rotation` for its methods.

    Args:
        model: A causal language model.
    """

    def __init__(self, model: Any) -> None:
        decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
        self._name = type(model).__name__
        self._rotary: Any = getattr(decoder, "rotary_emb", None)
        self._apply: Any = getattr(sys.modules.get(type(decoder).__module__), "apply_rotary_pos_emb", None)

    def check(self, layers: Layers) -> None:
        """Raise `ConfigurationError` unless keys are rotated by their positions."""
        if self._rotary is None or self._apply is None:
            raise self._refused("has no rotary position embedding: a learned position cannot be taken out of a key")
        kind = getattr(self._rotary, "rope_type", "default")
        if kind in BY_LENGTH:
            raise self._refused(f"has a rotary position embedding of type {kind!r}, which depends on the length")
        for keys, _ in layers:
            try:
                moved = self.back(keys[:, :, 1:], 1).float()
            except (TypeError, ValueError, RuntimeError, AttributeError, KeyError) as error:
                raise self._refused(f"rotates keys in an unsupported way ({error})") from error
            if not is_near(moved, keys[:, :, :-1].float(), torch.finfo(keys.dtype).eps):
                raise self._refused("rotates keys of some layers in an unsupported way")

    def back(self, keys: Tensor, positions: int, layer: int = 0) -> Tensor:
        """Return the keys of any layer rotated to positions that are lower by `positions`."""
        # In float32 for any dtype of the cache, so that keys are rounded once more, not twice.
        wide = keys.to(torch.float32)
        cos, sin = self._rotary(wide, torch.full((1, 1), -positions, device=keys.device))
        # Some kinds also scale the keys, which has already been done.
        factor = getattr(self._rotary, "attention_scaling", 1.0)
        try:
            turned = self._apply(wide, wide, cos / factor, sin / factor)[1]
        except RuntimeError:
            # Some models split off the rotated part before they call it.
            size = cos.shape[-1]
            part = wide[..., :size]
            turned = torch.cat([self._apply(part, part, cos / factor, sin / factor)[1], wide[..., size:]], -1)
        moved: Tensor = turned.to(keys.dtype)
        return moved

    def _refused(self, reason: str) -> ConfigurationError:
        return cannot_shift(f"{self._name} {reason}")


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
