"""The tokens of the last call of a session in vLLM, which are all that it knows of the engine's cache."""

from __future__ import annotations

from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.sessions.reuse import plan_reuse
from logitkit_adapters.sessions.generated import GeneratedRow

__all__ = ["LastCall"]


class LastCall:
    """The prompts and outputs of the last call; see `SessionCache` for its methods.

    Args:
        llm: vLLM's `LLM`.
    """

    name = "tokens of the last call"

    def __init__(self, llm: Any) -> None:
        self._llm = llm
        self.clear()

    def clear(self) -> None:
        """Forget the call; the engine keeps its cache."""
        self._rows: list[list[int]] = []
        self.tokens = 0

    def remember(self, prompts: list[list[int]], rows: list[GeneratedRow]) -> None:
        """Replace the call."""
        self._rows = [[*tokens, *row.token_ids] for tokens, row in zip(prompts, rows, strict=True)]
        self.tokens = sum(row.cached_tokens for row in rows)

    def shared(self, prompt: list[int]) -> int:
        """Return how many tokens a prompt shares with a row."""
        return max((plan_reuse(row[:-1], prompt).length for row in self._rows), default=0)

    @property
    def position(self) -> int:
        """The number of computed tokens of the last row."""
        return len(self._rows[-1]) - 1 if self._rows else 0

    def rewind(self, length: int) -> None:
        """Drop all tokens, also those of other callers, because the engine's cache cannot be cut.

        Raises:
            ConfigurationError: The engine runs requests.
        """
        if not self._llm.reset_prefix_cache():
            raise ConfigurationError(
                f"position cannot be set to {length} while the engine runs requests, because they use its cache; set it "
                "when they are done"
            )
        self.clear()
