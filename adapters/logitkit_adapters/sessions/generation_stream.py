"""A generation whose text arrives in pieces."""

from __future__ import annotations

from collections.abc import Generator
from typing import Self

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions.generated import Generated

__all__ = ["GenerationStream"]


class GenerationStream:
    """The pieces of the text of one generation, and its result after the last piece.

    Args:
        pieces: Yields the pieces and returns the result.
    """

    def __init__(self, pieces: Generator[str, None, Generated]) -> None:
        self._pieces = pieces
        self._generated: Generated | None = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> str:
        try:
            return next(self._pieces)
        except StopIteration as end:
            self._generated = end.value or self._generated
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the generation early; what it has computed stays in the session's cache."""
        self._pieces.close()

    @property
    def generated(self) -> Generated:
        """The result, as `Session.generate` returns it.

        Raises:
            ConfigurationError: The generation has not ended, or it was closed before its end.
        """
        if self._generated is None:
            raise ConfigurationError("the stream has not reached its end; read all of its pieces first")
        return self._generated
