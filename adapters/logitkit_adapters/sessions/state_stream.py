"""The text of a generation, piece by piece, and its state at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from logitkit.errors import ConfigurationError
from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.rows_of_pads import prompts_with_tokens
from logitkit_adapters.sessions.text_pieces import TextPieces
from logitkit_adapters.sessions.written_rows import Steps

__all__ = ["StateStream"]


class StateStream(Iterator[str | list[str]]):
    """An iterator of pieces of text; see `stream` of a generator. The pieces of a row join to the text that the call adds.

    A character that is not complete yet is held back. `close` ends the generation early, without a state.

    Args:
        engine: The model.
        state: The initial state.
        steps: The steps from it.
        samples: The number of samples per prompt in the result.
    """

    def __init__(self, engine: BatchEngine, state: SequenceState, steps: Steps, samples: int) -> None:
        self._lock, self._steps = engine.lock, steps
        repeats = samples // state.num_samples
        self._pieces = [TextPieces(row, engine.tokenizer) for row in state.rows for _ in range(repeats)]
        self._places = [b * samples + s for b in prompts_with_tokens(state) for s in range(samples)]
        self._state: SequenceState | None = None

    @property
    def state(self) -> SequenceState:
        """The state after the last piece.

        Raises:
            ConfigurationError: There are pieces left, or the generation was closed or failed.
        """
        if self._state is None:
            raise ConfigurationError(
                "the generation has not reached its end, so it has no state; read all pieces first"
            )
        return self._state

    def __next__(self) -> str | list[str]:
        while True:
            with self._lock:
                try:
                    first, written = next(self._steps)
                except StopIteration as end:
                    self._state = self._state or end.value
                    raise
            pieces = [""] * len(self._pieces)
            last = zip(written.ids[:, -1].tolist(), written.masks[:, -1].tolist(), strict=True)
            # A step contains all rows, or one.
            for place, (token, is_text) in zip(self._places[first:], last, strict=False):
                if is_text:
                    pieces[place] = self._pieces[place].feed([token])
            if any(pieces):
                return pieces if len(pieces) > 1 else pieces[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the generation."""
        self._steps.close()
