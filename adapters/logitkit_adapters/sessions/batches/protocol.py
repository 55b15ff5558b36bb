"""What `continuous` needs of an engine."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.sessions.packing import Packing
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.tokenizer_bytes.loaded_class import is_instance

__all__ = ["BatchEngine", "BatchRun", "batch_engine_of"]


class BatchRun(Protocol):
    """Rows that are being written; it owns its caches."""

    def start(self) -> Tensor:
        """Feed what the cache lacks of the rows, and return the logits of their last tokens, [R, V] float32."""
        ...

    def step(self, tokens: Tensor, goes_on: Tensor) -> Tensor:
        """Feed one token a row, and return the logits, [R, V] float32.

        Args:
            tokens: [R] int64.
            goes_on: [R] bool; the token of another row is a pad, and its logits may be anything finite.
        """
        ...

    def select(self, rows: Tensor) -> None:
        """Go on with these rows, [R] int64; they may repeat."""
        ...

    def only(self, row: int) -> BatchRun:
        """Return the run of one row, where an engine runs one by one."""
        ...

    def cache(self) -> Any:
        """Return what was cached, for a state; the run ends with it. Where an engine runs one by one: a list over rows."""
        ...


class BatchEngine(Protocol):
    """A model in its engine; also the port of its caches.

    Args:
        tokenizer: What encodes prompts and decodes rows.
        eos_ids: The ids that end a sequence.
        max_length: Most tokens that the model has positions for, if it says.
        device: Where states are.
        one_by_one: Whether rows are better written one after the other, as the engine runs one sequence at a time.
    """

    tokenizer: Any
    eos_ids: frozenset[int]
    max_length: int | None
    device: torch.device
    one_by_one: bool

    @property
    def kind(self) -> str:
        """See `CachePort`."""
        ...

    def run(self, state: SequenceState) -> BatchRun:
        """Return a run of the rows of a state; the state, its cache too, stays as it is."""
        ...

    def owns(self, state: SequenceState) -> bool:
        """Return whether the cache of a state is one of this model."""
        ...

    def repacked(self, cache: Any, packing: Packing) -> Any | None:
        """See `CachePort`."""
        ...

    def save(self, cache: Any, folder: os.PathLike[str]) -> bool:
        """See `CachePort`."""
        ...

    def opened(self, state: SequenceState) -> Any | None:
        """Return the cache that a loaded state refers to, if it is one of this model, or None."""
        ...


def batch_engine_of(model: Any, tokenizer: Any, make_cache: Callable[[], Any] | None) -> BatchEngine:
    """Return the engine that a model belongs to; only that engine is imported.

    Raises:
        ConfigurationError: The model is of no engine that is supported, or there is no tokenizer.
    """
    if is_instance(model, "llama_cpp", "Llama"):
        from logitkit_adapters.sessions.batches.llama_cpp import llama_cpp_batches

        return llama_cpp_batches(model, make_cache)
    in_transformers, in_mlx = (
        is_instance(model, "transformers", "PreTrainedModel"),
        is_instance(model, "mlx.nn", "Module"),
    )
    if not in_transformers and not in_mlx:
        raise ConfigurationError(
            f"model is a {type(model).__module__}.{type(model).__qualname__}; give a causal language model of transformers or "
            "mlx-lm, or a llama_cpp.Llama"
        )
    if tokenizer is None:
        raise ConfigurationError("tokenizer is None; give the tokenizer of the model")
    if in_transformers:
        from logitkit_adapters.sessions.batches.transformers import TransformersBatches

        return TransformersBatches(model, tokenizer, make_cache)
    from logitkit_adapters.sessions.batches.mlx_lm import mlx_lm_batches

    return mlx_lm_batches(model, tokenizer, make_cache)
