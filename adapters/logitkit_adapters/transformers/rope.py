"""Keys of transformers at other positions: rotary position embeddings rotate them, and can rotate them back."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError

__all__ = ["KeyRotation"]

# Their frequencies depend on the length of the sequence, so that earlier keys become wrong when it grows.
BY_LENGTH = ("dynamic", "longrope")

# The allowed error of a key relative to the largest: in float32, or in units of rounding if that is coarser.
NEAR, ROUNDINGS = 1e-4, 8


class KeyRotation:
    """The rotary position embedding of a model, computed by the model's own functions.

    Args:
        model: A causal language model.

    Source: Su and others, RoFormer, 2021, https://arxiv.org/abs/2104.09864: rotations by p and by q add up to one by p + q.
    """

    def __init__(self, model: Any) -> None:
        decoder = model.get_decoder() if hasattr(model, "get_decoder") else model
        self._name = type(model).__name__
        self._rotary: Any = getattr(decoder, "rotary_emb", None)
        self._apply: Any = getattr(sys.modules[type(decoder).__module__], "apply_rotary_pos_emb", None)

    def check(self, keys: list[Tensor] | None = None) -> None:
        """Check the model, and keys that it has computed.

        Args:
            keys: The keys of each layer, [1, heads, L, size], for one token repeated. Such a token sees only equal tokens, so
                its keys differ only by position, in every layer.

        Raises:
            ConfigurationError: Positions are learned, or keys are not rotated by their position only.
        """
        if self._rotary is None or self._apply is None:
            raise self._refused("has no rotary position embedding: a learned position cannot be taken out of a key")
        kind = getattr(self._rotary, "rope_type", "default")
        if kind in BY_LENGTH:
            raise self._refused(f"has a rotary position embedding of type {kind!r}, whose turns depend on the length")
        for layer in keys or []:
            try:
                moved, there = self.back(layer[:, :, 1:], 1).float(), layer[:, :, :-1].float()
            except (TypeError, ValueError, RuntimeError, AttributeError, KeyError) as error:
                raise self._refused(f"turns keys in a way of its own ({error})") from error
            near = max(NEAR, ROUNDINGS * torch.finfo(layer.dtype).eps)
            if float((moved - there).abs().max()) > near * float(there.abs().max()):
                raise self._refused("turns keys of some layers in a way of its own")

    def back(self, keys: Tensor, positions: int) -> Tensor:
        """Return keys, [1, heads, L, size], rotated to positions that are lower by `positions`."""
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
        return ConfigurationError(f"rolling=True is not possible: {self._name} {reason}; leave rolling=False")
