"""Generations whose text arrives in pieces, as their tokens do, and the state at their end."""

from __future__ import annotations

import atexit
from collections.abc import Generator, Sequence
from contextlib import suppress
from typing import Any, Generic, Self, TypeVar
from weakref import WeakSet

from logitkit.errors import ConfigurationError
from logitkit.sessions.sequence_state import SequenceState
from logitkit.sessions.text_continuation import added_text
from logitkit.sessions.text_tokenizer import REPLACEMENT, TextTokenizer
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.generated import Generated
from logitkit_adapters.sessions.rows_of_pads import prompts_with_tokens
from logitkit_adapters.sessions.written_rows import Steps, WrittenRows

__all__ = ["GenerationStream", "PieceStream", "StateStream", "TextPieces"]


class TextPieces:
    """Turns the tokens of one row into pieces of text, which contain no incomplete character.

    The pieces join to the text that the tokens add, if their bytes are valid UTF-8.

    Args:
        prompt: The tokens before the text.
        tokenizer: The tokenizer.
    """

    def __init__(self, prompt: Sequence[int], tokenizer: Any) -> None:
        self._tokens = list(prompt)
        self._tokenizer = TextTokenizer(tokenizer)
        # The tokens before it are shown completely; those after it have shown `_shown`.
        self._begin, self._shown = len(self._tokens), ""
        self.text = ""

    def feed(self, tokens: Sequence[int]) -> str:
        """Return the text that can be shown after more tokens."""
        self._tokens += tokens
        before, new = self._tokens[: self._begin], self._tokens[self._begin :]
        added = added_text(before, new, self._tokenizer)
        # Some decoders replace a whole run of bytes, also a part that has been shown, once the run is not valid UTF-8.
        piece = added[len(self._shown) :]
        self._shown += piece
        self.text += piece
        if piece and not self._tokenizer.decode(new).endswith(REPLACEMENT):
            self._begin, self._shown = len(self._tokens), ""
        return piece


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
        _streams.add(self)

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


_streams: WeakSet[PieceStream[Any, Any]] = WeakSet()


@atexit.register
def _close_streams() -> None:
    """Close the streams that a program has not read to their end: torch aborts if Python's shutdown frees their tensors."""
    for stream in [*_streams]:
        # Another thread may be reading it.
        with suppress(ValueError):
            stream.close()


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


class StateStream(PieceStream[tuple[int, WrittenRows], SequenceState]):
    """An iterator of pieces of text; see `stream` of a generator. The pieces of a row join to the text that the call adds.

    A character that is not complete yet is held back. `close` ends the generation early, without a state.

    Args:
        engine: The model.
        state: The initial state.
        steps: The steps from it.
        samples: The number of samples per prompt in the result.
    """

    def __init__(self, engine: BatchEngine, state: SequenceState, steps: Steps, samples: int) -> None:
        super().__init__(steps)
        self._lock = engine.lock
        repeats = samples // state.num_samples
        self._pieces = [TextPieces(row, engine.tokenizer) for row in state.rows for _ in range(repeats)]
        self._places = [b * samples + s for b in prompts_with_tokens(state) for s in range(samples)]

    @property
    def state(self) -> SequenceState:
        """The state after the last piece.

        Raises:
            ConfigurationError: There are pieces left, or the generation was closed or failed.
        """
        return self._result("state")

    def __next__(self) -> str | list[str]:
        while True:
            with self._lock:
                first, written = self._step()
            pieces = [""] * len(self._pieces)
            last = zip(written.ids[:, -1].tolist(), written.masks[:, -1].tolist(), strict=True)
            # A step contains all rows, or one.
            for place, (token, is_text) in zip(self._places[first:], last, strict=False):
                if is_text:
                    pieces[place] = self._pieces[place].feed([token])
            if any(pieces):
                return pieces if len(pieces) > 1 else pieces[0]
