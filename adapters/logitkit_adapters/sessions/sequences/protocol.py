"""What a session needs of an engine, and which engine a model belongs to."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Protocol, Self

import torch
from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit_adapters.tokenizer_bytes.loaded_class import is_instance

__all__ = ["CachedSequence", "FilingEngine", "SavedSequence", "SequenceEngine", "engine_of"]


class SavedSequence(Protocol):
    """The cache of a sequence as it was at one time; nothing changes it.

    What was saved from a sequence that `restore` made shares the memory of the part that both have in common.
    """

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose positions are cached."""

    @property
    def is_cuttable(self) -> bool:
        """Whether the first positions of it can be restored without the others."""


class CachedSequence(Protocol):
    """Tokens of one sequence, and their keys and values in an engine."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens whose positions are cached."""

    @property
    def length(self) -> int:
        """Number of those tokens."""

    @property
    def positions_fed(self) -> int:
        """Number of positions that were run through the model for this object; a fork begins at 0."""

    @property
    def forward_passes(self) -> int:
        """Number of calls of `feed` for this object; a fork begins at 0."""

    def feed(self, tokens: Sequence[int], *, all_positions: bool = False) -> Tensor:
        """Run tokens through the model, behind those that are cached.

        Args:
            tokens: At least one token id.
            all_positions: Return the logits of every token instead of the last one's.

        Returns:
            Logits that the caller owns, [V] or [T, V], on the engine's device (CPU for mlx-lm and llama.cpp) and in the dtype in
            which the engine gives them to its own hooks.

        Raises:
            Exception: What the engine raises. The sequence is unusable from then on; forks and saved ones are not.
        """

    def trim(self, length: int) -> bool:
        """Keep the first `length` positions only; return False, and change nothing, where the cache cannot."""

    def shift(self, drop: int) -> bool:
        """Drop the first `drop` positions and move the others to the front; return False where the cache cannot.

        The keys turn with their positions, but what deeper layers saw of the dropped tokens stays in them.
        """

    def fork(self) -> Self | None:
        """Return a sequence of the same tokens that goes its own way; None where the cache cannot be copied."""

    def save(self) -> SavedSequence | None:
        """Return the cache as it is now; None where it cannot be gone on from without changing what comes out."""


class SequenceEngine(Protocol):
    """A model in its engine.

    Args:
        vocabulary_size: Columns of the logits; 0 if that shows only when there are some.
        device: Where the logits are.
        has_text: Whether there is a tokenizer.
        eos_ids: The ids with which the engine's own `generate` ends.
        max_length: Most positions that the engine or the model has, if it says.
        layers: Number of layers.
        resumes: Whether `resume` takes less time than `restore`.
    """

    vocabulary_size: int
    device: torch.device
    has_text: bool
    eos_ids: frozenset[int]
    max_length: int | None
    layers: int
    resumes: bool

    def new(self) -> CachedSequence:
        """Return a sequence without tokens."""

    def restore(self, saved: SavedSequence, length: int) -> CachedSequence | None:
        """Return a sequence of the first `length` tokens of a saved one; None where the cache cannot."""

    def resume(self, sequence: Any, length: int) -> CachedSequence | None:
        """Return the first `length` tokens of a sequence that is used by nobody any more, without a copy.

        None where that is not possible, or `restore` does as well.
        """

    def greedy(self, logits: Tensor) -> int:
        """Return the token that the engine's own greedy search takes: of logits [V] or [1, V], which may be overwritten."""

    def forget(self) -> None:
        """Let go of what the engine itself would take for the cache of some tokens."""

    def check_shift(self) -> None:
        """Raise `ConfigurationError`, with the reason, if positions cannot be shifted."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, special ones as the engine adds them."""

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of new tokens, special ones left out."""


class FilingEngine(SequenceEngine, Protocol):
    """An engine whose caches can be written to files."""

    def fingerprint(self) -> str:
        """Return what tells this model, and the form of its cache, from others."""

    def write(self, saved: SavedSequence, length: int, path: str | os.PathLike[str]) -> bool:
        """Write the first `length` tokens of a cache, or more; return False where the cache cannot be cut so, or has gone."""

    def read(self, path: str | os.PathLike[str]) -> SavedSequence | None:
        """Return what `write` has written; None if there is nothing, or it is not of a model like this."""


def engine_of(model: Any, tokenizer: Any = None, make_cache: Callable[[], Any] | None = None) -> SequenceEngine:
    """Return the engine that a model belongs to; only that engine is imported.

    Args:
        model: A causal language model of transformers, a model of mlx-lm, or a `llama_cpp.Llama`.
        tokenizer: The tokenizer of the model; llama.cpp has its own. It may be None where all prompts are token ids.
        make_cache: Makes the empty cache of one sequence, where the engine's own default is not wanted. llama.cpp has none.

    Raises:
        ConfigurationError: The model is of no engine that is supported.
    """
    if is_instance(model, "llama_cpp", "Llama"):
        from logitkit_adapters.sessions.sequences.llama_cpp import LlamaCppEngine

        return LlamaCppEngine(model, make_cache)
    if is_instance(model, "mlx.nn", "Module"):
        from logitkit_adapters.sessions.sequences.mlx_lm import MlxLmEngine

        return MlxLmEngine(model, tokenizer, make_cache)
    if is_instance(model, "transformers", "PreTrainedModel"):
        from logitkit_adapters.sessions.sequences.transformers import TransformersEngine

        return TransformersEngine(model, tokenizer, make_cache)
    raise ConfigurationError(
        f"model is a {type(model).__module__}.{type(model).__qualname__}; give a causal language model of transformers or "
        "mlx-lm, or a llama_cpp.Llama"
    )
