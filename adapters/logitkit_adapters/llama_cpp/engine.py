"""The engine of a `llama_cpp.Llama` for sessions: one sequence, or a batch whose rows run one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from logitkit_adapters.llama_cpp.sequence import LlamaCppEngine
from logitkit_adapters.sessions.batch_of_sequences import SequenceBatches

__all__ = ["batch_engine", "sequence_engine"]


def sequence_engine(model: Any, _tokenizer: Any, make_cache: Callable[[], Any] | None) -> LlamaCppEngine:
    """Return the engine that runs one sequence.

    Args:
        model: The `Llama`: a model with its context and tokenizer.
        make_cache: None, because the context contains the cache.

    Raises:
        ConfigurationError: `make_cache` is given.
    """
    return LlamaCppEngine(model, make_cache)


def batch_engine(model: Any, _tokenizer: Any, make_cache: Callable[[], Any] | None) -> SequenceBatches:
    """Return the engine that runs a batch; the arguments are those of `sequence_engine`.

    Raises:
        ConfigurationError: `make_cache` is given.
    """
    return SequenceBatches(model, LlamaCppEngine(model, make_cache), "llama.cpp")
