"""Keys of transformers at other positions: rotary position embeddings rotate them, and can rotate them back."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions.array_caches import Layers, cannot_shift, is_near

__all__ = ["KeyRotation"]

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
