"""The base classes of an engine for `Session`: the model, a sequence of tokens with its cache, and a snapshot of that cache."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import MutableSequence, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from logitkit_adapters.sessions.likeliest import likeliest
from logitkit_adapters.sessions.prompts import Prompt, read_prompts

__all__ = ["CachedSequence", "SavedSequence", "SequenceEngine"]


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


class CachedSequence(ABC):
    """The tokens of one sequence, with their keys and values in an engine.

    Args:
        tokens: The tokens whose positions are cached.
        positions_fed: The number of positions that this object has run through the model; a fork starts at 0.
        forward_passes: The number of forward passes of this object; a fork starts at 0.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens: MutableSequence[int] = list(tokens)
        self.positions_fed = 0
        self.forward_passes = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose positions are cached."""
        return tuple(self._tokens)

    @property
    def length(self) -> int:
        """The number of these tokens."""
        return len(self._tokens)

    def _count(self, tokens: Sequence[int]) -> None:
        """Record a forward pass over these tokens."""
        self._tokens.extend(tokens)
        self.positions_fed += len(tokens)
        self.forward_passes += 1

    @abstractmethod
    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model, after the cached ones.

        Args:
            tokens: At least one token id.
            all_positions: Return the logits of every token instead of the last one's.

        Returns:
            Logits that the caller owns, [V] or [T, V], on the engine's device (the CPU for mlx-lm, llama.cpp and ONNX Runtime
            GenAI), in the dtype that the engine passes to its own hooks.

        Raises:
            Exception: Any exception of the engine. The sequence is then unusable; its forks and snapshots remain valid.
        """

    @abstractmethod
    def trim(self, length: int) -> bool:
        """Keep only the first `length` positions; return False, without any change, if the cache cannot be cut."""

    @abstractmethod
    def shift(self, drop: int) -> bool:
        """Drop the first `drop` positions and move the others to the front; return False if the cache does not support it.

        Keys are rotated to their new positions, but in deeper layers they still contain information about the dropped tokens.
        """

    @abstractmethod
    def fork(self) -> Self | None:
        """Return an independent copy of the sequence, or None if the cache cannot be copied."""

    @abstractmethod
    def save(self) -> SavedSequence | None:
        """Return a snapshot of the cache, or None if continuing from one would change the output."""


class SequenceEngine(ABC):
    """A model in its engine. By default, its caches cannot be written to files.

    Args:
        vocabulary_size: The number of logits columns; 0 if unknown before the first logits.
        device: The device of the logits.
        tokenizer: The tokenizer, or None if all prompts are token ids.
        eos_ids: The ids at which the engine's own `generate` ends; the tokenizer's if the model defines none.
        max_length: The maximum number of positions of the engine or the model, if known.
        layers: The number of layers.
        resumes: Whether `resume` is faster than `restore`.
        moves: Whether a restored sequence takes the cache over from its snapshot, which then has only the restored tokens.
        lock: The lock to hold while a sequence is used: the lock of the model if only one thread at a time may run it.
    """

    vocabulary_size: int
    device: torch.device
    tokenizer: Any
    eos_ids: frozenset[int]
    max_length: int | None
    layers: int
    resumes = False
    moves = False
    lock: AbstractContextManager[Any]

    @abstractmethod
    def new(self) -> CachedSequence:
        """Return an empty sequence."""

    @abstractmethod
    def restore(self, saved: SavedSequence, length: int) -> CachedSequence | None:
        """Return a sequence of the first `length` tokens of a snapshot, or None if the cache cannot be cut."""

    def resume(self, sequence: Any, length: int) -> CachedSequence | None:
        """Return the first `length` tokens of a sequence that is no longer in use, without a copy.

        Returns None if that is impossible, or `restore` is as good.
        """
        return None

    def greedy(self, logits: Tensor) -> int:
        """Return the token that the engine's own greedy search chooses, from logits [V] or [1, V], which may be overwritten."""
        return likeliest(logits)

    def prompts(self, prompt: Prompt, attention_mask: Any = None) -> list[list[int]]:
        """Return the tokens of each prompt; see `read_prompts`. An engine may take further kinds of prompts."""
        return read_prompts(prompt, None if self.tokenizer is None else self.encode, self.tokenizer, attention_mask)

    def reusable(self, ids: Sequence[int], length: int) -> int:
        """Return how many of the first `length` ids of a prompt, of those by which caches are found, a cache may stand for."""
        return length

    @property
    def is_busy(self) -> bool:
        """Whether a method of a sequence is changing what all sequences share; by default, they share nothing."""
        return False

    def forget(self) -> None:
        """Make the engine forget everything that it could mistake for the cache of some tokens: by default, it has nothing."""
        return

    @abstractmethod
    def check_shift(self) -> None:
        """Raise `ConfigurationError`, with the reason, if positions cannot be shifted."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, with special tokens as the engine adds them."""

    def fingerprint(self) -> str:
        """Return a string that identifies this model and the format of its cache in files."""
        return ""

    def write(self, saved: SavedSequence, length: int, path: str | os.PathLike[str]) -> bool:
        """Write at least the first `length` tokens of a cache; return False if the cache cannot be cut or no longer exists."""
        return False

    def read(self, path: str | os.PathLike[str]) -> SavedSequence | None:
        """Return a snapshot written by `write`; None if there is none, or it belongs to a different model."""
        return None
