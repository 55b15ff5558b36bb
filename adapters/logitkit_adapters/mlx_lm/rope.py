"""Keys of mlx-lm at other positions: rotary position embeddings rotate them, and can rotate them back."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from logitkit.errors import ConfigurationError

__all__ = ["LayerRotation"]

# The allowed error of a key relative to the largest: in float32, or in units of rounding if that is coarser.
NEAR, ROUNDINGS = 1e-4, 8


class LayerRotation:
    """The rotary position embedding of one layer, computed by the layer's own module.

    Args:
        layer: A layer of a model of mlx-lm.

    Source: Su and others, RoFormer, 2021, https://arxiv.org/abs/2104.09864: rotations by p and by q add up to one by p + q.
    """

    def __init__(self, layer: Any) -> None:
        attention = getattr(layer, "self_attn", None)
        self._name = type(layer).__name__
        self._rope: Any = getattr(attention, "rope", None)

    def check(self, keys: mx.array | None = None) -> None:
        """Check the layer, and keys that it has computed.

        Args:
            keys: [1, heads, L, size], for one token repeated. Such a token sees only equal tokens, so its keys differ only by
                position, in every layer.

        Raises:
            ConfigurationError: Positions are learned, or keys are not rotated by their position only.
        """
        if self._rope is None:
            raise self._refused("has no rotary position embedding: a learned position cannot be taken out of a key")
        if keys is not None:
            there = keys[:, :, :-1].astype(mx.float32)
            apart = mx.abs(self.back(keys[:, :, 1:], 1).astype(mx.float32) - there).max()
            near = max(NEAR, ROUNDINGS * mx.finfo(keys.dtype).eps)
            if (apart > near * mx.abs(there).max()).item():
                raise self._refused("turns keys in a way of its own")

    def back(self, keys: mx.array, positions: int) -> mx.array:
        """Return keys, [1, heads, L, size], rotated to positions that are lower by `positions`."""
        _, heads, length, size = keys.shape
        # A module assigns consecutive positions to the tokens of a row, but the same ones to all rows.
        rows = keys.astype(mx.float32).reshape(heads, length, 1, size).swapaxes(0, 1)
        # Some kinds also multiply the keys by a constant, which has already been done.
        factor = self._rope(mx.ones((1, 1, 1, size)), offset=0)
        turned: mx.array = self._rope(rows / factor, offset=-positions)
        return turned.swapaxes(0, 1).reshape(keys.shape).astype(keys.dtype)

    def _refused(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"rolling=True is not possible: {self._name} {reason}; leave rolling=False")
