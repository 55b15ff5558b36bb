"""The engine of a transformers model for sessions: one sequence, or a batch of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import Cache

from logitkit_adapters.sessions.batch_of_sequences import SequenceBatches
from logitkit_adapters.transformers.batch import TransformersBatches
from logitkit_adapters.transformers.model import is_recurrent, reads_pads
from logitkit_adapters.transformers.recurrent import RecurrentEngine
from logitkit_adapters.transformers.sequence import TransformersEngine

__all__ = ["batch_engine", "sequence_engine"]


def sequence_engine(
    model: Any, tokenizer: Any, make_cache: Callable[[], Cache] | None
) -> TransformersEngine | RecurrentEngine:
    """Return the engine that runs one sequence.

    Args:
        model: The model.
        tokenizer: Its tokenizer, or None if all prompts are token ids.
        make_cache: Returns an empty cache; None for the default.

    Raises:
        ConfigurationError: The model has an encoder, or no cache.
    """
    return (RecurrentEngine if is_recurrent(model) else TransformersEngine)(model, tokenizer, make_cache)


def batch_engine(
    model: Any, tokenizer: Any, make_cache: Callable[[], Cache] | None
) -> TransformersBatches | SequenceBatches:
    """Return the engine that runs a batch; the arguments are those of `sequence_engine`.

    Recurrent layers run one row at a time: some of them read padding, and none can keep a row unchanged while others continue.
    The same holds for models that count padding as positions.

    Raises:
        ConfigurationError: The model has an encoder, or no cache.
    """
    engine = sequence_engine(model, tokenizer, make_cache)
    if is_recurrent(model) or reads_pads(model):
        return SequenceBatches(model, engine, "transformers")
    return TransformersBatches(model, engine, make_cache)
