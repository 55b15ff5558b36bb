"""A sequence in mlx-lm."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import KVCache, RotatingKVCache, make_prompt_cache

from logitkit_adapters.mlx.sequence import MlxEngine
from logitkit_adapters.mlx_lm import files
from logitkit_adapters.sessions.array_caches import SavedSegments
from logitkit_adapters.sessions.sequence import SavedSequence

__all__ = ["MlxLmEngine"]


class MlxLmEngine(MlxEngine):
    """A model of mlx-lm; see `ArrayEngine` for its methods.

    Args:
        model: The model.
        tokenizer: Its `TokenizerWrapper`, or None if all prompts are token ids; then no token ends a text.
        make_cache: Returns the empty caches of the layers; default: mlx-lm's own.
    """

    all_positions, window = KVCache, RotatingKVCache

    def __init__(self, model: Any, tokenizer: Any = None, make_cache: Callable[[], list[Any]] | None = None) -> None:
        arguments = getattr(model, "args", None)
        super().__init__(
            model,
            tokenizer,
            make_cache or (lambda: make_prompt_cache(model)),
            layers=model.layers,
            vocabulary_size=int(getattr(arguments, "vocab_size", 0)),
            max_length=getattr(arguments, "max_position_embeddings", None),
        )

    def forward(self, ids: mx.array, cache: list[Any]) -> mx.array:
        """Run tokens through the model, and return their logits."""
        logits: mx.array = self.model(ids, cache=cache)
        return logits

    def write(self, saved: SavedSequence, length: int, path: str | os.PathLike[str]) -> bool:
        """Write the first tokens of a cache."""
        sequence = self.restore(saved, length)
        if sequence is not None:
            files.write(path, sequence.cache, sequence.tokens)
        return sequence is not None

    def read(self, path: str | os.PathLike[str]) -> SavedSegments | None:
        """Return a snapshot written by `write`."""
        found = files.read(path, self.make_cache())
        return None if found is None else self.sequence(self, *found).save()

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt, as `stream_generate` encodes it."""
        bos = self.tokenizer.bos_token
        special = bos is None or not text.startswith(bos)
        return list(self.tokenizer.encode(text, add_special_tokens=special))
