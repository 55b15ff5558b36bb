"""Keys of mlx-lm at other positions: rotary position embeddings turn them, and can turn them back."""

from __future__ import annotations

from typing import Any

import mlx.core as mx

from logitkit.errors import ConfigurationError

__all__ = ["KeyRotation"]


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

    def check(self) -> None:
        """Try whether turns add up.

        Raises:
            ConfigurationError: Positions are learned, or the turns depend on more than the position.
        """
        if self._rope is None:
            raise self._refused("has no rotary position embedding: a learned position cannot be taken out of a key")
        size: int = getattr(self._rope, "dims", getattr(self._rope, "dim", 0))
        keys = mx.random.normal((1, 1, 1, size), key=mx.random.key(0))
        near = mx.allclose(self.back(self._rope(keys, offset=7), 5), self._rope(keys, offset=2), atol=1e-5)
        if not size or not near.item():
            raise self._refused("turns keys by positions in a way that does not add up")

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
