"""Tokens that mlx-lm hides at the start of a sequence: a hook warns about a hidden prompt and refuses hidden output."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.protocol.processor import Processor, name_of, reads_prompt
from logitkit.tracking.padding import Padding
from logitkit_adapters.mlx_lm.caller import cached_tokens, why_tokens_are_missing

__all__ = ["Beginning", "check_cache"]


def check_cache(shown: int, longest: int) -> None:
    """Refuse a sequence whose cache already contains output, because ids alone cannot distinguish that from the prompt."""
    cached = cached_tokens()
    if shown < longest and cached is not None and cached > longest:
        raise ConfigurationError(
            f"mlx-lm shows the last {shown} of {cached} tokens, and the given prompt has {longest}, so it hides "
            f"{cached - longest} tokens of the output; give mlx-lm all tokens and an empty prompt cache"
        )


class Beginning:
    """Counts the left padding of a new sequence, refuses it if mlx-lm hides its output, and warns once if it hides the prompt."""

    def __init__(self, processor: Processor[Any], padding: Padding) -> None:
        self._watched = name_of(processor) if reads_prompt(processor) else None
        self._padding = padding

    def __call__(self, ids: Tensor) -> Tensor:
        """Return the amount of left padding, [1], in a sequence that starts with these ids, [1, L]."""
        self.check(ids.shape[1])
        skip = self._padding.skip
        return skip(ids) if callable(skip) else skip

    def check(self, shown: int) -> None:
        """Check the tokens that mlx-lm hides of a sequence of which `shown` tokens are visible."""
        reason = why_tokens_are_missing()
        if reason is not None:
            raise ConfigurationError(f"the hook misses tokens of the output: mlx-lm {reason}")
        if self._watched is not None:
            cached = cached_tokens()
            if cached is not None and cached > shown:
                warnings.warn(
                    f"{self._watched} reads the prompt, of which mlx-lm shows only the last {shown} of {cached} tokens; the "
                    "others do not count unless you pass prompt=...",
                    stacklevel=2,
                )
                self._watched = None
