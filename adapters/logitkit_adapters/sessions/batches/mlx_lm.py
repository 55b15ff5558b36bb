"""Batches in mlx-lm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logitkit_adapters.sessions.batches.sequences import SequenceBatches
from logitkit_adapters.sessions.sequences.mlx_lm import MlxLmEngine

__all__ = ["mlx_lm_batches"]


def mlx_lm_batches(model: Any, tokenizer: Any, make_cache: Callable[[], Any] | None) -> SequenceBatches:
    """Return a model of mlx-lm as an engine.

    Args:
        model: The model.
        tokenizer: Its `TokenizerWrapper`.
        make_cache: Makes the empty caches of all layers; None for mlx-lm's own.
    """
    return SequenceBatches(model, tokenizer, MlxLmEngine(model, tokenizer, make_cache), "mlx-lm")
