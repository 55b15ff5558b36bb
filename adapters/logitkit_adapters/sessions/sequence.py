"""The interface that an engine must provide for `Session`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import torch
from torch import Tensor

__all__ = ["CachedSequence", "FilingEngine", "SavedSequence", "SequenceEngine"]


class SavedSequence(Protocol):
    """An immutable snapshot of a sequence's cache.

    A snapshot of a sequence made by `restore` shares the memory of their common part.
    """

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose positions are cached."""

    @property
    def is_cuttable(self) -> bool:
        """Whether the first positions can be restored without the rest."""


class CachedSequence(Protocol):
    """The tokens of one sequence, with their keys and values in an engine."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose positions are cached."""

    @property
    def length(self) -> int:
        """The number of these tokens."""

    @property
    def positions_fed(self) -> int:
        """The number of positions run through the model by this object; a fork starts at 0."""

    @property
    def forward_passes(self) -> int:
        """The number of calls of `feed` on this object; a fork starts at 0."""

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model, after the cached ones.

        Args:
            tokens: At least one token id.
            all_positions: Return the logits of every token instead of the last one's.

        Returns:
            Logits that the caller owns, [V] or [T, V], on the engine's device (the CPU for mlx-lm and llama.cpp), in the dtype
            that the engine passes to its own hooks.

        Raises:
            Exception: Any exception of the engine. The sequence is then unusable; its forks and snapshots remain valid.
        """

    def trim(self, length: int) -> bool:
        """Keep only the first `length` positions; return False, without any change, if the cache cannot be cut."""

    def shift(self, drop: int) -> bool:
        """Drop the first `drop` positions and move the others to the front; return False if the cache does not support it.

        Keys are rotated to their new positions, but in deeper layers they still contain information about the dropped tokens.
        """

    def fork(self) -> Self | None:
        """Return an independent copy of the sequence, or None if the cache cannot be copied."""

    def save(self) -> SavedSequence | None:
        """Return a snapshot of the cache, or None if continuing from one would change the output."""


class SequenceEngine(Protocol):
    """A model in its engine.

    Args:
        vocabulary_size: The number of logits columns; 0 if unknown before the first logits.
        device: The device of the logits.
        has_text: Whether there is a tokenizer.
        tokenizer: The tokenizer, or None.
        eos_ids: The ids at which the engine's own `generate` ends; the tokenizer's if the model defines none.
        max_length: The maximum number of positions of the engine or the model, if known.
        layers: The number of layers.
        resumes: Whether `resume` is faster than `restore`.
    """

    vocabulary_size: int
    device: torch.device
    has_text: bool
    tokenizer: Any
    eos_ids: frozenset[int]
    max_length: int | None
    layers: int
    resumes: bool

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock to hold while a sequence is used: the lock of the model if only one thread at a time may run it."""
        ...

    def new(self) -> CachedSequence:
        """Return an empty sequence."""

    def restore(self, saved: SavedSequence, length: int) -> CachedSequence | None:
        """Return a sequence of the first `length` tokens of a snapshot, or None if the cache cannot be cut."""

    def resume(self, sequence: Any, length: int) -> CachedSequence | None:
        """Return the first `length` tokens of a sequence that is no longer in use, without a copy.

        Returns None if that is impossible, or `restore` is as good.
        """

    def greedy(self, logits: Tensor) -> int:
        """Return the token that the engine's own greedy search chooses, from logits [V] or [1, V], which may be overwritten."""

    def forget(self) -> None:
        """Make the engine forget everything that it could mistake for the cache of some tokens."""

    def check_shift(self) -> None:
        """Raise `ConfigurationError`, with the reason, if positions cannot be shifted."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, with special tokens as the engine adds them."""


class FilingEngine(SequenceEngine, Protocol):
    """An engine whose caches can be saved to files."""

    def fingerprint(self) -> str:
        """Return a string that identifies this model and the format of its cache."""

    def write(self, saved: SavedSequence, length: int, path: str | os.PathLike[str]) -> bool:
        """Write at least the first `length` tokens of a cache; return False if the cache cannot be cut or no longer exists."""

    def read(self, path: str | os.PathLike[str]) -> SavedSequence | None:
        """Return a snapshot written by `write`; None if there is none, or it belongs to a different model."""
