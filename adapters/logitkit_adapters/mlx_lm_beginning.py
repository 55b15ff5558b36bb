"""What mlx-lm hides of a sequence that begins: of the prompt, which a hook warns of, or of the output, which it refuses."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.left_pads import LeftPads
from logitkit.processor import Processor, name_of, reads_prompt
from logitkit_adapters.mlx_lm_caller import cached_tokens, why_tokens_are_missing

__all__ = ["Beginning", "check_cache"]


def check_cache(shown: int, longest: int) -> None:
    """Refuse a sequence that begins with output in the cache, which ids alone would not tell from the prompt."""
    cached = cached_tokens()
    if shown < longest and cached is not None and cached > longest:
        raise ConfigurationError(
            f"mlx-lm shows the last {shown} of {cached} tokens, and the prompt that was told has {longest}: it hides "
            f"{cached - longest} tokens of the output; give mlx-lm all tokens and an empty prompt cache"
        )


class Beginning:
    """Count the left pads of a sequence that begins, refuse it if mlx-lm hides its output, and warn if its prompt, once."""

    def __init__(self, processor: Processor[Any], left_pads: LeftPads) -> None:
        self._watched = name_of(processor) if reads_prompt(processor) else None
        self._left_pads = left_pads
        self._checked = False

    def __call__(self, ids: Tensor) -> Tensor:
        """Return the number of left pads of a sequence, [1], that begins with these ids, [1, L]."""
        if not self._checked:
            self.check(ids.shape[1])
        skip = self._left_pads.skip
        return skip(ids) if callable(skip) else skip

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Count the pads only: what begins is told late, and mlx-lm does something else now."""
        self._checked = True
        try:
            yield
        finally:
            self._checked = False

    def check(self, shown: int) -> None:
        """Look at what mlx-lm hides of a sequence that begins with so many tokens."""
        reason = why_tokens_are_missing()
        if reason is not None:
            raise ConfigurationError(f"the hook misses tokens of the output: mlx-lm {reason}")
        if self._watched is not None:
            cached = cached_tokens()
            if cached is not None and cached > shown:
                warnings.warn(
                    f"{self._watched} reads the prompt, of which mlx-lm shows the last {shown} of {cached} tokens only; the "
                    "others do not count unless prompt=... tells them",
                    stacklevel=2,
                )
                self._watched = None
