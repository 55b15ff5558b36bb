"""How much of a text mlx-lm has in its cache, while it calls a hook: the one sign that it hides tokens from the hook."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["cached_tokens"]

# Functions of this module call hooks.
MODULE = "mlx_lm.generate"

# Calls between a hook and the function that asks, with room to spare.
DEPTH = 24


def cached_tokens() -> int | None:
    """Return how many tokens of the sequence in question are in the cache, or None if nobody says.

    mlx-lm tells a hook nothing but ids, so this looks at the variables of the function that called it. It is good for a warning,
    and for nothing else.
    """
    frame = sys._getframe()  # noqa: SLF001 - the public way, inspect.stack, reads source files
    for _ in range(DEPTH):
        if frame.f_back is None:
            return None
        frame = frame.f_back
        if frame.f_globals.get("__name__") == MODULE:
            found = _tokens(frame.f_locals)
            if found is not None:
                return found
    return None


def _tokens(variables: Mapping[str, Any]) -> int | None:
    row = variables.get("e")
    layers = variables.get("cache") or variables.get("prompt_cache")
    if layers is None:
        layers = getattr(variables.get("self"), "prompt_cache", None)
    for layer in layers or ():
        offset: Any = getattr(layer, "offset", None)
        if isinstance(offset, int):
            return offset
        # The cache of a batch has one for each row.
        if isinstance(row, int) and getattr(offset, "ndim", 0) == 1:
            return int(offset[row])
    return None
