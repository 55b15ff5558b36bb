"""Reads a turn while it is generated, token id by token id or text by text, with the constraint stepped beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from logitkit.errors import ConfigurationError
from logitkit.parameters.place import shown
from logitkit.parameters.scalars import as_integer
from logitkit.runtime.walk import Walk
from logitkit.tools.marked_text import MarkedText
from logitkit.tools.named_text import UNNAMED, NamedText
from logitkit.tools.turn import Turn, TurnEvent
from logitkit.tools.turn_reader import TurnReader
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["TextTurnStream", "TurnStream"]


class _Stream:
    """The common part of streams of ids and of text: the reader, and the constraint beside it.

    Args:
        reader: Reads the text of the turn.
        walk: The start of the language of the turn, which says where the turn leaves it; None: that is not known.
        vocabulary: The tokens of that language.
    """

    def __init__(self, reader: TurnReader, walk: Walk | None, vocabulary: Vocabulary) -> None:
        self._reader, self._walk, self._vocabulary = reader, walk, vocabulary
        self._ends = frozenset(vocabulary.eos_ids)
        self._outside: int | None = None
        self._ended = False

    def _step(self, token: int, at: int) -> None:
        """Go on by a token at a position."""
        if self._walk is None or self._outside is not None:
            return
        if token in self._ends:
            allowed = self._walk.may_end()
        else:
            known = 0 <= token < self._vocabulary.size
            self._walk = self._walk.after(token) if known else self._walk
            allowed = known and self._walk.is_live
        if not allowed:
            self._outside = at

    def _turn(self, turn: Turn) -> Turn:
        """Return a turn with what the language says of it."""
        may_end = self._walk is None or self._ended or self._walk.may_end()
        complete = turn.complete and self._outside is None and may_end
        return replace(turn, outside_at=self._outside, complete=complete)


class TurnStream(_Stream):
    """Parses a turn while it is generated, from token ids; created by `Tools.stream` with a vocabulary.

    Args:
        reader: Reads its text.
        walk: The start of its language.
        vocabulary: The tokens.
    """

    def __init__(self, reader: TurnReader, walk: Walk, vocabulary: Vocabulary) -> None:
        super().__init__(reader, walk, vocabulary)
        self._text = MarkedText(vocabulary, reader.markers)
        self._count = 0
        # Where the bytes of a character that is not complete begin.
        self._begun = 0

    def feed(self, token: int) -> list[TurnEvent]:
        """Read a token, and return what it adds.

        Args:
            token: Its id. EOS ends the turn; what is fed after it is ignored.

        Raises:
            ConfigurationError: It is not an integer.
        """
        number = as_integer(token)
        if number is None:
            raise ConfigurationError(
                f"a token is {shown(token)} of type {type(token).__name__}; allowed are token ids. For text, use stream() "
                "without a vocabulary"
            )
        if self._ended or number == self._vocabulary.pad_id:
            return []
        at = self._count
        self._count += 1
        self._step(number, at)
        if number in self._ends:
            self._ended = True
            return []
        text = self._text.next(number)
        first, self._begun = (self._begun, self._count) if text else (0, self._begun)
        return self._reader.feed((character, first, self._count) for character in text) if text else []

    def finish(self) -> tuple[list[TurnEvent], Turn]:
        """Return the last events, and the whole turn."""
        rest = self._text.end()
        events = self._reader.feed((character, self._begun, self._count) for character in rest) if rest else []
        more, turn = self._reader.finish()
        return [*events, *more], self._turn(turn)


class TextTurnStream(_Stream):
    """Parses a turn while it is generated, from text with its special tokens by name; created by `Tools.stream()`.

    Args:
        reader: Reads its text.
        walk: The start of its language, over bytes and names; None: it is not known.
        text: How the names in the text are meant.
    """

    def __init__(self, reader: TurnReader, walk: Walk | None, text: NamedText) -> None:
        super().__init__(reader, walk, text.vocabulary)
        self._text = text

    def feed(self, text: str) -> list[TurnEvent]:
        """Read more text, and return the events that it adds. The possible first part of a special token's name is held back.

        Args:
            text: The new text.

        Raises:
            ConfigurationError: It is not a str.
        """
        if not isinstance(text, str):
            raise ConfigurationError(
                f"the text is {shown(text)} of type {type(text).__name__}; allowed is a str. For ids, use stream(vocabulary)"
            )
        return self._reader.feed(self._pieces(text, final=False))

    def finish(self) -> tuple[list[TurnEvent], Turn]:
        """Return the last events, and the whole turn."""
        events = self._reader.feed(self._pieces("", final=True))
        more, turn = self._reader.finish()
        ambiguous = not turn.calls and self._reader.may_lack_markers()
        return [*events, *more], replace(self._turn(turn), ambiguous=ambiguous)

    def _pieces(self, text: str, final: bool) -> Iterator[tuple[str, int, int]]:
        for piece, first, token in self._text.pieces(text, final):
            if self._ended:
                return
            if token is not None and (token in self._ends or self._takes(token)):
                self._step(token, first)
                if token in self._ends:
                    self._ended = True
                    return
            else:
                for at, character in enumerate(piece, first):
                    for byte in character.encode("utf-8", "surrogatepass"):
                        self._step(byte, at)
            marked = self._reader.markers.marked(piece) if token is not None else piece
            last = first + len(piece)
            if len(marked) < len(piece):
                yield marked, first, last
            else:
                yield from ((character, at, at + 1) for at, character in enumerate(marked, first))

    def _takes(self, token: int) -> bool:
        """Whether a name means the token: not inside of a string, for example, where no token but that of the text is legal."""
        if self._walk is None or self._outside is not None:
            return True
        return self._walk.after(token).is_live or self._walk.after(UNNAMED).is_live
