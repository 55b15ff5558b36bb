"""The engine of an mlx-vlm model for sessions: one sequence, or a batch of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logitkit_adapters.mlx.batch import MlxBatches
from logitkit_adapters.mlx_vlm.sequence import MlxVlmEngine

__all__ = ["batch_engine", "sequence_engine"]


class MlxVlmBatches(MlxBatches):
    """A model of mlx-vlm, whose rows step together if their positions are those in their caches."""

    engine: MlxVlmEngine

    @property
    def row_by_row(self) -> bool:
        """Whether a forward pass runs one row."""
        return bool(self.engine.position_names) or super().row_by_row


def sequence_engine(model: Any, tokenizer: Any, make_cache: Callable[[], Any] | None) -> MlxVlmEngine:
    """Return the engine that runs one sequence.

    Args:
        model: The model.
        tokenizer: Its processor of images and text or its tokenizer, or None if all prompts are token ids.
        make_cache: Returns the empty caches of all layers; None for mlx-vlm's own.
    """
    return MlxVlmEngine(model, tokenizer, make_cache)


def batch_engine(model: Any, tokenizer: Any, make_cache: Callable[[], Any] | None) -> MlxVlmBatches:
    """Return the engine that runs a batch; the arguments are those of `sequence_engine`."""
    return MlxVlmBatches(model, sequence_engine(model, tokenizer, make_cache), "mlx-vlm")
