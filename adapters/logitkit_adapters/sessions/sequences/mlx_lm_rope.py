"""Keys of mlx-lm at other positions: rotary position embeddings turn them, and can turn them back."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from logitkit.errors import ConfigurationError

__all__ = ["KeyRotation"]

# How far off a key may be, as a share of the largest: in float32, and in units of rounding where that is coarser.
NEAR, ROUNDINGS = 1e-4, 8


class KeyRotation:
    """The rotary position embedding of one layer, by the layer's own module.

    Args:
        layer: A layer of a model of mlx-lm.

    Source: Su and others, RoFormer, 2021, https://arxiv.org/abs/2104.09864: turns by p and by q are one by p + q.
    """

    def __init__(self, layer: Any) -> None:
        attention = getattr(layer, "self_attn", None)
        self._name = type(layer).__name__
        self._rope: Any = getattr(attention, "rope", None)

    def check(self, keys: mx.array | None = None) -> None:
        """Look at the layer, and at keys that it has computed.

        Args:
            keys: [1, heads, L, size], of one token again and again. Such a token sees nothing but its like, so that its keys
                differ by position only, in every layer.

        Raises:
            ConfigurationError: Positions are learned, or keys turn with more than the position.
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
        """Return keys, [1, heads, L, size], as they are at positions that are lower by as many."""
        _, heads, length, size = keys.shape
        # A module gives the tokens of one row one position after another, but all rows the same.
        rows = keys.astype(mx.float32).reshape(heads, length, 1, size).swapaxes(0, 1)
        # Some kinds multiply what they turn by a constant, which it has been already.
        factor = self._rope(mx.ones((1, 1, 1, size)), offset=0)
        turned: mx.array = self._rope(rows / factor, offset=-positions)
        return turned.swapaxes(0, 1).reshape(keys.shape).astype(keys.dtype)

    def _refused(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"rolling=True is not possible: {self._name} {reason}; leave rolling=False")
