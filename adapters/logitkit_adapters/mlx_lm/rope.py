"""Keys of mlx-lm at other positions: rotary position embeddings rotate them, and can rotate them back."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from logitkit_adapters.sessions.array_caches import Layers, cannot_shift, is_near

__all__ = ["KeyRotations"]


class KeyRotations:
    """The rotary position embeddings of a model's layers; see `Rotation` for its methods.

    Args:
        model: A model of mlx-lm.
    """

    def __init__(self, model: Any) -> None:
        self._name = type(model).__name__
        self._ropes: list[Any] = [getattr(getattr(layer, "self_attn", None), "rope", None) for layer in model.layers]

    def check(self, layers: Layers) -> None:
        """Raise `ConfigurationError` unless keys are rotated by their positions."""
        if None in self._ropes:
            raise cannot_shift(
                f"{self._name} has no rotary position embedding: a learned position cannot be taken out of a key"
            )
        for place, (keys, _) in enumerate(layers):
            moved = self.back(keys[:, :, 1:], 1, place)
            there = keys[:, :, :-1].astype(mx.float32)
            if not is_near(moved.astype(mx.float32), there, mx.finfo(keys.dtype).eps):
                raise cannot_shift(f"{self._name} rotates keys in an unsupported way")

    def back(self, keys: mx.array, positions: int, layer: int) -> mx.array:
        """Return the keys of a layer rotated to positions that are lower by `positions`."""
        _, heads, length, size = keys.shape
        # A module assigns consecutive positions to the tokens of a row, but the same ones to all rows.
        rows = keys.astype(mx.float32).reshape(heads, length, 1, size).swapaxes(0, 1)
        # Some kinds also multiply the keys by a constant, which has already been done.
        rope = self._ropes[layer]
        factor = rope(mx.ones((1, 1, 1, size)), offset=0)
        turned: mx.array = rope(rows / factor, offset=-positions)
        return turned.swapaxes(0, 1).reshape(keys.shape).astype(keys.dtype)
