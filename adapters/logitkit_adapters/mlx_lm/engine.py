"""The engine of an mlx-lm model for sessions: one sequence, or a batch of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logitkit_adapters.mlx.batch import MlxBatches
from logitkit_adapters.mlx_lm.sequence import MlxLmEngine

__all__ = ["batch_engine", "sequence_engine"]


def sequence_engine(model: Any, tokenizer: Any, make_cache: Callable[[], Any] | None) -> MlxLmEngine:
    """Return the engine that runs one sequence.

    Args:
        model: The model.
        tokenizer: Its `TokenizerWrapper`, or None if all prompts are token ids.
        make_cache: Returns the empty caches of all layers; None for mlx-lm's own.
    """
    return MlxLmEngine(model, tokenizer, make_cache)


def batch_engine(model: Any, tokenizer: Any, make_cache: Callable[[], Any] | None) -> MlxBatches:
    """Return the engine that runs a batch; the arguments are those of `sequence_engine`."""
    return MlxBatches(model, sequence_engine(model, tokenizer, make_cache), "mlx-lm")
