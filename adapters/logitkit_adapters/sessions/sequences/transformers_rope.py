"""Keys of transformers at other positions: rotary position embeddings turn them, and can turn them back."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError

__all__ = ["KeyRotation"]

# Whose frequencies depend on the length of the sequence, so that keys from before it grew do not fit.
BY_LENGTH = ("dynamic", "longrope")


class KeyRotation:
    """The rotary position embedding of a model, by the model's own functions.

    Args:
        model: A causal language model.

    Source: Su and others, RoFormer, 2021, https://arxiv.org/abs/2104.09864: turns by p and by q are one by p + q.
    """

    def __init__(self, model: Any) -> None:
        decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
        self._name = type(model).__name__
        self._rotary: Any = getattr(decoder, "rotary_emb", None)
        self._apply: Any = getattr(sys.modules[type(decoder).__module__], "apply_rotary_pos_emb", None)
        config = model.config.get_text_config(decoder=True)
        heads = getattr(config, "num_attention_heads", None)
        self._size = getattr(config, "head_dim", None) or (config.hidden_size // heads if heads else 0)

    def check(self) -> None:
        """Try whether turns add up.

        Raises:
            ConfigurationError: Positions are learned, or the turns depend on more than the position.
        """
        if self._rotary is None or self._apply is None:
            raise self._refused("has no rotary position embedding: a learned position cannot be taken out of a key")
        kind = getattr(self._rotary, "rope_type", "default")
        if kind in BY_LENGTH:
            raise self._refused(f"has a rotary position embedding of type {kind!r}, whose turns depend on the length")
        key = torch.randn(1, 1, 1, self._size, generator=torch.Generator().manual_seed(0))
        try:
            there = self._turned(key, 7, scaled=True)
            near = torch.allclose(self._turned(there, -5, scaled=False), self._turned(key, 2, scaled=True), atol=1e-5)
        except (TypeError, ValueError, RuntimeError, AttributeError, KeyError) as error:
            raise self._refused(f"turns keys in a way of its own ({error})") from error
        if not near:
            raise self._refused("turns keys by positions in a way that does not add up")

    def back(self, keys: Tensor, positions: int) -> Tensor:
        """Return keys, [1, heads, L, size], as they are at positions that are lower by as many."""
        return self._turned(keys, -positions, scaled=False)

    def _turned(self, keys: Tensor, positions: int, *, scaled: bool) -> Tensor:
        # In float32, whatever the cache is in: keys are rounded once more, not twice.
        wide = keys.to(torch.float32)
        cos, sin = self._rotary(wide, torch.full((1, 1), positions, device=keys.device))
        factor = 1.0 if scaled else getattr(self._rotary, "attention_scaling", 1.0)
        turned: Tensor = self._apply(wide, wide, cos / factor, sin / factor)[1]
        return turned.to(keys.dtype)

    def _refused(self, reason: str) -> ConfigurationError:
        return ConfigurationError(f"rolling=True is not possible: {self._name} {reason}; leave rolling=False")
