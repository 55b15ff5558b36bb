"""Tokens that an mlx engine hides at the start of a sequence: a hook warns about a hidden prompt and refuses hidden output."""

from __future__ import annotations

import warnings
from typing import Any

from torch import Tensor

from logitkit.errors import ConfigurationError
from logitkit.protocol.processor import Processor, name_of, reads_prompt
from logitkit.tracking.padding import Padding
from logitkit_adapters.mlx.caller import Caller

__all__ = ["Beginning"]


class Beginning:
    """Counts the left padding of a new sequence, refuses it if its engine hides output, and warns once if it hides the prompt."""

    def __init__(self, processor: Processor[Any], padding: Padding, caller: Caller) -> None:
        self._watched = name_of(processor) if reads_prompt(processor) else None
        self._padding = padding
        self._caller = caller

    def __call__(self, ids: Tensor) -> Tensor:
        """Return the amount of left padding, [1], in a sequence that starts with these ids, [1, L]."""
        self.check(ids.shape[1])
        skip = self._padding.skip
        return skip(ids) if callable(skip) else skip

    def check(self, shown: int) -> None:
        """Check the tokens that the engine hides of a sequence of which `shown` tokens are visible."""
        engine, reason = self._caller.engine, self._caller.why_tokens_are_missing()
        if reason is not None:
            raise ConfigurationError(f"the hook misses tokens of the output: {engine} {reason}")
        if self._watched is not None:
            cached = self._caller.cached_tokens()
            if cached is not None and cached > shown:
                warnings.warn(
                    f"{self._watched} reads the prompt, of which {engine} shows only the last {shown} of {cached} tokens; the "
                    "others do not count unless you pass prompt=...",
                    stacklevel=2,
                )
                self._watched = None

    def check_cache(self, shown: int, longest: int) -> None:
        """Refuse a sequence whose cache already contains output, because ids alone cannot distinguish that from the prompt.

        Args:
            shown: The number of visible tokens.
            longest: The number of tokens of the longest given prompt.
        """
        engine, cached = self._caller.engine, self._caller.cached_tokens()
        if shown < longest and cached is not None and cached > longest:
            raise ConfigurationError(
                f"{engine} shows the last {shown} of {cached} tokens, and the given prompt has {longest}, so it hides "
                f"{cached - longest} tokens of the output; give {engine} all tokens and an empty prompt cache"
            )
