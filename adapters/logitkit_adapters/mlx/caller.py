"""Data that an mlx engine does not pass to hooks: the sequence of a batch, how much of it is cached, and skipped tokens.

mlx-lm and mlx-vlm pass only ids to a hook. So this module inspects the variables of the calling function, and reports nothing if
they are not as expected. Only warnings, errors, and the choice between sequences with the same ids may depend on it.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping
from types import FrameType
from typing import Any, ClassVar

__all__ = ["Caller"]

# The maximum number of calls between a function of the engine and one here, with a margin.
DEPTH = 24


class Caller:
    """The functions of an engine that call hooks, and their variables.

    Subclasses set the names, and `starts_row`, `why_tokens_are_missing` and what else differs.

    Args:
        engine: The engine's name, for messages.
        module: The module whose functions call hooks.
        row: The variable that holds the current row in functions that generate a batch.
        has_modes_without_hooks: Whether the engine may call a hook for the first token only; see `why_tokens_are_unprocessed`.
    """

    engine: ClassVar[str]
    module: ClassVar[str]
    row: ClassVar[str]
    has_modes_without_hooks: ClassVar[bool] = False

    def cached_tokens(self) -> int | None:
        """Return how many tokens of the current sequence are in the cache, or None if unknown."""
        found = (self._cached(frame.f_locals) for frame in self.frames())
        return next((count for count in found if count is not None), None)

    def hidden_tokens(self, shown: int) -> int:
        """Return how many cached tokens of the current sequence precede those shown to a hook, or a lower bound."""
        cached = self.cached_tokens()
        return 0 if cached is None else max(0, cached - shown - self.uncertain_tokens())

    def uncertain_tokens(self) -> int:
        """Return how many cached tokens may not belong to the current sequence."""
        return 0

    def batch_sequence(self) -> tuple[Hashable, bool]:
        """Return the id of the current sequence, and whether it is new; None and False if unknown."""
        frame = next(self.frames(), None)
        if frame is None or self.row not in frame.f_code.co_varnames:
            return None, False
        row, batch = frame.f_locals.get(self.row), frame.f_locals.get("self")
        names = getattr(batch, "uids", None)
        if not isinstance(row, int) or not isinstance(names, list) or row >= len(names):
            return None, False
        return names[row], self.starts_row(frame)

    def starts_row(self, frame: FrameType) -> bool:
        """Whether a frame of a batch chooses the first tokens of its sequences."""
        raise NotImplementedError

    def begins_generation(self) -> bool:
        """Return whether the hook is called for the first token of `generate_step`, which counts the tokens that it chose."""
        steps = (frame for frame in self.frames() if frame.f_code.co_name == "generate_step")
        frame = next(steps, None)
        return frame is not None and "n" not in frame.f_locals

    def why_tokens_are_missing(self) -> str | None:
        """Return why a hook in its first call does not see every token of the output, or None if it does."""
        return None

    def why_tokens_are_unprocessed(self, frame: FrameType) -> str | None:
        """Return why the engine chooses later tokens without the hook, or None if it does not.

        Args:
            frame: The frame that called the hook.
        """
        return None

    def frames(self) -> Iterator[FrameType]:
        """Yield the engine's functions on the call stack, the nearest first."""
        frame: FrameType | None = sys._getframe()  # noqa: SLF001 - the public way, inspect.stack, reads source files
        left = DEPTH + 2  # this function and the one that asks are on the stack too
        while frame is not None and left:
            if frame.f_globals.get("__name__") == self.module:
                yield frame
                left = DEPTH + 1
            frame, left = frame.f_back, left - 1

    def _cached(self, variables: Mapping[str, Any]) -> int | None:
        row = variables.get(self.row)
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
