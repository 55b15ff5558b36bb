"""The text of a generation, piece by piece, and its state at the end."""

from __future__ import annotations

from logitkit.sessions.sequence_state import SequenceState
from logitkit_adapters.sessions.batch import BatchEngine
from logitkit_adapters.sessions.generation_stream import PieceStream
from logitkit_adapters.sessions.rows_of_pads import prompts_with_tokens
from logitkit_adapters.sessions.text_pieces import TextPieces
from logitkit_adapters.sessions.written_rows import Steps, WrittenRows

__all__ = ["StateStream"]


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
