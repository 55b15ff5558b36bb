"""Reads a turn while it is generated, token id by token id, with the constraint stepped beside it."""

from __future__ import annotations

from dataclasses import replace

import torch

from logitkit.protocol.context import Context
from logitkit.runtime.constraint import Constraint
from logitkit.tools.marked_text import MarkedText
from logitkit.tools.turn import Turn, TurnEvent
from logitkit.tools.turn_reader import TurnReader
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["TurnStream"]


class TurnStream:
    """Parses a turn while it is generated; created by `Tools.stream`.

    Args:
        reader: Reads its text.
        constraint: The constraint of its language, which says where the turn leaves it.
        vocabulary: The tokens.
    """

    def __init__(self, reader: TurnReader, constraint: Constraint, vocabulary: Vocabulary) -> None:
        self._reader, self._constraint, self._vocabulary = reader, constraint, vocabulary
        self._text = MarkedText(vocabulary, reader.markers)
        self._state = constraint.init_state(Context.of([[]], vocabulary_size=vocabulary.size))
        self._count = 0
        # Where the bytes of a character that is not complete begin.
        self._begun = 0
        self._outside: int | None = None
        self._ended = False

    def feed(self, token: int) -> list[TurnEvent]:
        """Read a token, and return what it adds.

        Args:
            token: Its id. EOS ends the turn; what is fed after it is ignored.
        """
        if self._ended or token == self._vocabulary.pad_id:
            return []
        at = self._count
        self._count += 1
        if self._outside is None:
            self._state = self._constraint.advance(self._state, torch.tensor([token]))
            if bool(self._constraint.is_dead(self._state)[0]):
                self._outside = at
        if token in self._vocabulary.eos_ids:
            self._ended = True
            return []
        text = self._text.next(token)
        first, self._begun = (self._begun, self._count) if text else (0, self._begun)
        return self._reader.feed((character, first, self._count) for character in text) if text else []

    def finish(self) -> tuple[list[TurnEvent], Turn]:
        """Return the last events, and the whole turn."""
        rest = self._text.end()
        events = self._reader.feed((character, self._begun, self._count) for character in rest) if rest else []
        more, turn = self._reader.finish()
        return [*events, *more], replace(turn, outside_at=self._outside)
