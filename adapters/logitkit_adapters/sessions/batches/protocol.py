"""What `continuous` needs of an engine."""

from __future__ import annotations

import os
from typing import Any, Protocol

import torch
from torch import Tensor

from logitkit.sessions.packing import Packing
from logitkit.sessions.sequence_state import SequenceState

__all__ = ["BatchEngine", "BatchRun"]


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

    def cache(self) -> Any:
        """Return what was cached, for a state; the run ends with it."""
        ...


class BatchEngine(Protocol):
    """A model in its engine; also the port of its caches.

    Args:
        tokenizer: What encodes prompts and decodes rows.
        eos_ids: The ids that end a sequence.
        max_length: Most tokens that the model has positions for, if it says.
        device: Where states are.
    """

    tokenizer: Any
    eos_ids: frozenset[int]
    max_length: int | None
    device: torch.device

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
