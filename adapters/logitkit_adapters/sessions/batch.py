"""The base class of an engine for `continuous`: a model that runs batches of rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from torch import Tensor

from logitkit.sessions.cache_port import CachePort, SavedCache
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.sessions.sequence import SequenceEngine

__all__ = ["BatchEngine", "BatchRun"]


class BatchRun(Protocol):
    """Rows being generated; a run owns its caches."""

    def start(self) -> Tensor:
        """Feed the uncached tokens of the rows to the model, and return the logits of the last tokens, [R, V] float32."""

    def step(self, tokens: Tensor, active: Tensor) -> Tensor:
        """Feed one token per row, and return the logits, [R, V] float32.

        Args:
            tokens: [R] int64.
            active: [R] bool; other rows get padding for a token, and their logits may be any finite values.
        """

    def select(self, rows: Tensor) -> None:
        """Continue with the given rows, [R] int64; rows may repeat."""

    def cache(self) -> Any:
        """Return the cache for a state, which ends the run."""


class BatchEngine(CachePort):
    """A model in its engine, and the port of its caches.

    Args:
        model: The model.
        engine: The model as an engine of single sequences.
        name: The engine's name.
        tokenizer: The tokenizer that encodes prompts and decodes rows.
        eos_ids: The ids that end a sequence.
        max_length: The maximum number of positions of the model, if known.
        device: The device of the states.
        lock: The lock to hold while rows are generated: the lock of the model if only one thread at a time may run it.
    """

    def __init__(self, model: Any, engine: SequenceEngine, name: str) -> None:
        self.model = model
        self.engine = engine
        self.name = name
        self.tokenizer = engine.tokenizer
        self.eos_ids = engine.eos_ids
        self.max_length = engine.max_length
        self.device = engine.device
        self.lock: AbstractContextManager[Any] = engine.lock

    @property
    def row_by_row(self) -> bool:
        """Whether a forward pass runs one row, so that rows are generated one after another."""
        return False

    @property
    def kind(self) -> str:
        """Identifies the engine and the model."""
        return f"{self.name} {self.engine.fingerprint()}"

    def owns(self, state: SequenceState) -> bool:
        """Return whether the cache of a state belongs to this model."""
        return isinstance(state.port, BatchEngine) and state.port.model is self.model

    @abstractmethod
    def run(self, state: SequenceState) -> BatchRun:
        """Return a run of the rows of a state; the state and its cache stay unchanged."""

    @abstractmethod
    def continuations(self, prompt: Sequence[int], rows: Sequence[Sequence[int]]) -> Iterator[Tensor]:
        """Yield for each row the logits after the prompt and after each token of the row, [1 + tokens, V] float32.

        Args:
            prompt: The tokens before all rows.
            rows: Tokens, sorted, so that neighbours share long prefixes. Only the first may be empty, if it is the only one.
        """

    @abstractmethod
    def read(self, saved: SavedCache, rows: Sequence[Sequence[int]]) -> Any | None:
        """Return a cache that this model has saved, or None if it is damaged.

        Args:
            saved: The saved cache, of the same `kind`.
            rows: The tokens of the rows that it is for.
        """
