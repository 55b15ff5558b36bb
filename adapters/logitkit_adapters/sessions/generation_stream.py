"""Generations whose text arrives in pieces."""

from __future__ import annotations

from collections.abc import Generator
from typing import Generic, Self, TypeVar

from logitkit.errors import ConfigurationError
from logitkit_adapters.sessions.generated import Generated

__all__ = ["GenerationStream", "PieceStream"]

S = TypeVar("S")
R = TypeVar("R")


class PieceStream(Generic[S, R]):
    """A generation that runs while it is read; subclasses define `__next__` with `_step`.

    Args:
        steps: Yields the steps and returns the result.
    """

    def __init__(self, steps: Generator[S, None, R]) -> None:
        self._steps = steps
        self._ended: R | None = None

    def __iter__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the generation early; what a session has computed stays in its cache."""
        self._steps.close()

    def _step(self) -> S:
        """Return the next step, and keep the result after the last one."""
        try:
            return next(self._steps)
        except StopIteration as end:
            self._ended = end.value or self._ended
            raise

    def _result(self, name: str) -> R:
        if self._ended is None:
            raise ConfigurationError(
                f"the generation has not finished, so it has no {name} yet; read all of its pieces first"
            )
        return self._ended


class GenerationStream(PieceStream[str, Generated]):
    """The pieces of the text of one generation, and its result after the last piece.

    Args:
        steps: Yields the pieces and returns the result.
    """

    def __next__(self) -> str:
        return self._step()

    @property
    def generated(self) -> Generated:
        """The result, as `Session.generate` returns it.

        Raises:
            ConfigurationError: The generation has not ended, or it was closed before its end.
        """
        return self._result("result")
