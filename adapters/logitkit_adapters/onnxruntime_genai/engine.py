"""The engine of an `onnxruntime_genai.Model` for sessions: one sequence, or a batch whose rows run one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logitkit_adapters.onnxruntime_genai.sequence import OnnxEngine
from logitkit_adapters.sessions.batch_of_sequences import SequenceBatches

__all__ = ["batch_engine", "sequence_engine"]


def sequence_engine(model: Any, tokenizer: Any, make_cache: Callable[[], Any] | None) -> OnnxEngine:
    """Return the engine that runs one sequence.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None if all prompts are token ids.
        make_cache: None, because a generator has its own cache.

    Raises:
        ConfigurationError: `make_cache` is given.
    """
    return OnnxEngine(model, tokenizer, make_cache)


def batch_engine(model: Any, tokenizer: Any, make_cache: Callable[[], Any] | None) -> SequenceBatches:
    """Return the engine that runs a batch; the arguments are those of `sequence_engine`.

    Raises:
        ConfigurationError: `make_cache` is given.
    """
    return SequenceBatches(model, OnnxEngine(model, tokenizer, make_cache), "onnxruntime-genai")
