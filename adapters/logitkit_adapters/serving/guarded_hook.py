"""A processor that fails ends its own row, and no other: an exception in a hook would end the thread that generates for all."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

__all__ = ["GuardedHook"]

_logger = logging.getLogger(__name__)


class GuardedHook:
    """Calls a hook; from its first error on, only EOS is allowed.

    Args:
        hook: The hook.
        only_ends: Returns logits in which only EOS is allowed, of the shape of the given ones.
    """

    def __init__(self, hook: Callable[[Any, Any], Any], only_ends: Callable[[Any], Any]) -> None:
        self._hook, self._only_ends = hook, only_ends
        self.error: Exception | None = None

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """Return the processed logits.

        Args:
            tokens: The tokens, as the engine passes them.
            logits: The logits, as the engine passes them.
        """
        if self.error is None:
            try:
                return self._hook(tokens, logits)
            except Exception as error:
                _logger.exception("a processor failed; its request ends")
                self.error = error
        return self._only_ends(logits)
