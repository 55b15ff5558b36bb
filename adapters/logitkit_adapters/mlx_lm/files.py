"""Caches of mlx-lm in files, in the format of its own `save_prompt_cache`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from mlx_lm.models import cache as mlx_cache

__all__ = ["read", "write"]


def write(path: str | os.PathLike[str], cache: list[Any], tokens: Sequence[int]) -> None:
    """Write the caches of all layers, and their tokens."""
    mlx_cache.save_prompt_cache(os.fspath(path), cache, {"tokens": json.dumps(list(tokens))})


def read(path: str | os.PathLike[str], like: list[Any]) -> tuple[tuple[int, ...], list[Any]] | None:
    """Return the tokens and caches from `write`, or None if there are none or they have other types."""
    load: Any = mlx_cache.load_prompt_cache
    try:
        cache, notes = load(os.fspath(path), return_metadata=True)
        tokens = tuple(int(i) for i in json.loads(notes["tokens"]))
        kinds = [(type(layer), layer.offset) for layer in cache]
    except (OSError, RuntimeError, ValueError, TypeError, LookupError, AttributeError):
        return None
    return (tokens, cache) if kinds == [(type(layer), len(tokens)) for layer in like] else None
