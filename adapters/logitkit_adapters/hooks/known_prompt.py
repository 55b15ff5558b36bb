"""Warn of a generation whose prompt a hook takes for the output of an earlier one."""

from __future__ import annotations

import warnings
from collections.abc import Callable

__all__ = ["KnownPromptWarning", "WarnOnce"]


class KnownPromptWarning(UserWarning):
    """A generation began with a prompt that contains output of an earlier one, which the hook continues."""


class WarnOnce:
    """Warn at the first call in which a generation begins; later calls do nothing.

    It is called when a hook continues output in an unusual way. Within a generation, that is normal for drafts, so the variables
    of the engine decide whether a generation begins.

    Args:
        begins: Whether the engine's function that calls the hook is at its first token, and does not try drafts.
    """

    def __init__(self, begins: Callable[[], bool]) -> None:
        self._begins, self._warned = begins, False

    def __call__(self) -> None:
        """Warn if a generation begins."""
        if self._warned or not self._begins():
            return
        self._warned = True
        warnings.warn(
            "a generation begins with a prompt that this hook has seen together with output, so the hook continues that "
            "output. If the prompt is a new one, create a new hook with logits_processor(...), or call hook.new_generation() "
            "before",
            KnownPromptWarning,
            stacklevel=2,
        )
