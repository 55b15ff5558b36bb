"""Data that mlx-lm does not pass to hooks: the sequence of a batch, how much of it is cached, and skipped tokens.

mlx-lm passes only ids to a hook. So this module inspects the variables of the calling function, and reports nothing if they are
not as expected. Only warnings, errors, and the choice between sequences with the same ids may depend on it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping
from types import FrameType
from typing import Any

__all__ = ["batch_sequence", "begins_generation", "cached_tokens", "hidden_tokens", "why_tokens_are_missing"]

# The mlx-lm modules whose functions call hooks.
MODULE = "mlx_lm.generate"

# The variable that holds the current row in functions that generate a batch.
ROW_OF_BATCH = "e"

# The maximum number of calls between such a function and one here, with a margin.
DEPTH = 24


def cached_tokens() -> int | None:
    """Return how many tokens of the current sequence are in the cache, or None if unknown."""
    found = (_cached(frame.f_locals) for frame in _callers())
    return next((count for count in found if count is not None), None)


def hidden_tokens(shown: int) -> int:
    """Return how many cached tokens of the current sequence precede those shown to a hook, or a lower bound."""
    cached = cached_tokens()
    if cached is None:
        return 0
    speculative = (f for f in _callers() if f.f_code.co_name == "speculative_generate_step")
    # Drafts are in the cache before it is known whether they are accepted.
    drafts = next((frame.f_locals.get("num_draft_tokens", 0) for frame in speculative), 0)
    return max(0, cached - shown - drafts)


def batch_sequence() -> tuple[Hashable, bool]:
    """Return the id of the current sequence, and whether it is new; None and False if unknown."""
    frame = next(_callers(), None)
    if frame is None or ROW_OF_BATCH not in frame.f_code.co_varnames:
        return None, False
    row, batch = frame.f_locals.get(ROW_OF_BATCH), frame.f_locals.get("self")
    names = getattr(batch, "uids", None)
    if not isinstance(row, int) or not isinstance(names, list) or row >= len(names):
        return None, False
    # A batch makes its first step, on prompts, when it is created.
    return names[row], frame.f_back is not None and frame.f_back.f_code.co_name == "__init__"


def begins_generation() -> bool:
    """Return whether the hook is called for the first token of `generate_step`, which counts the tokens that it has chosen."""
    steps = (frame for frame in _callers() if frame.f_code.co_name == "generate_step")
    frame = next(steps, None)
    return frame is not None and "n" not in frame.f_locals


def why_tokens_are_missing() -> str | None:
    """Return why a hook in its first call does not see every token of the output, or None if it does."""
    for frame in _callers():
        name, variables = frame.f_code.co_name, frame.f_locals
        # It counts the tokens that it has chosen.
        if name == "generate_step" and "n" in variables:
            return (
                "chose the first token without it, as with input_embeddings and no tokens; give mlx-lm the tokens too"
            )
        if name == "speculative_generate_step" and variables.get("num_draft_tokens", 1) < 1:
            return "shows it the last token only, as with num_draft_tokens=0; ask for drafts, or give no draft_model"
    return None


def _callers() -> Iterator[FrameType]:
    """Yield the functions of mlx-lm on the call stack, the nearest first."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the public way, inspect.stack, reads source files
    left = DEPTH + 2  # this function and the one that asks are on the stack too
    while frame is not None and left:
        if frame.f_globals.get("__name__") == MODULE:
            yield frame
            left = DEPTH + 1
        frame, left = frame.f_back, left - 1


def _cached(variables: Mapping[str, Any]) -> int | None:
    row = variables.get(ROW_OF_BATCH)
    layers = variables.get("cache") or variables.get("prompt_cache")
    if layers is None:
        layers = getattr(variables.get("self"), "prompt_cache", None)
    for layer in layers or ():
        offset: Any = getattr(layer, "offset", None)
        if isinstance(offset, int):
            return offset
        # The cache of a batch has one entry per row.
        if isinstance(row, int) and getattr(offset, "ndim", 0) == 1:
            return int(offset[row])
    return None
