"""The interface that an engine must provide for `continuous`."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from torch import Tensor

from logitkit.sessions.packing import Packing
from logitkit.sessions.sequence_state import SequenceState

__all__ = ["BatchEngine", "BatchRun"]


class BatchRun(Protocol):
    """Rows being generated; a run owns its caches."""

    def start(self) -> Tensor:
        """Feed the uncached tokens of the rows to the model, and return the logits of the last tokens, [R, V] float32."""
        ...

    def step(self, tokens: Tensor, goes_on: Tensor) -> Tensor:
        """Feed one token per row, and return the logits, [R, V] float32.

        Args:
            tokens: [R] int64.
            goes_on: [R] bool; other rows get padding for a token, and their logits may be any finite values.
        """
        ...

    def select(self, rows: Tensor) -> None:
        """Continue with the given rows, [R] int64; rows may repeat."""
        ...

    def only(self, row: int) -> BatchRun:
        """Return a run of a single row, for engines that run one sequence at a time."""
        ...

    def cache(self) -> Any:
        """Return the cache for a state, which ends the run. For engines that run one sequence at a time: a list over rows."""
        ...


class BatchEngine(Protocol):
    """A model in its engine, and the port of its caches.

    Args:
        tokenizer: The tokenizer that encodes prompts and decodes rows.
        eos_ids: The ids that end a sequence.
        max_length: The maximum number of positions of the model, if known.
        device: The device of the states.
        one_by_one: Whether to generate rows one after another, because the engine runs one sequence at a time.
    """

    tokenizer: Any
    eos_ids: frozenset[int]
    max_length: int | None
    device: torch.device
    one_by_one: bool

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock to hold while rows are generated: the lock of the model if only one thread at a time may run it."""
        ...

    @property
    def kind(self) -> str:
        """See `CachePort`."""
        ...

    def run(self, state: SequenceState) -> BatchRun:
        """Return a run of the rows of a state; the state and its cache stay unchanged."""
        ...

    def owns(self, state: SequenceState) -> bool:
        """Return whether the cache of a state belongs to this model."""
        ...

    def repacked(self, cache: Any, packing: Packing) -> Any | None:
        """See `CachePort`."""
        ...

    def save(self, cache: Any, folder: os.PathLike[str]) -> bool:
        """See `CachePort`."""
        ...

    def opened(self, state: SequenceState) -> Any | None:
        """Return the cache that a loaded state refers to, or None if it does not belong to this model."""
        ...
