"""Text to display while tokens arrive."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from typing import SupportsIndex

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.limits import DEFAULT_LIMITS, Limits, check_limits
from logitkit.parameters import Boolean
from logitkit.parameters.scalars import as_integer
from logitkit.stopping.stop_automaton import FIRED
from logitkit.stopping.stop_registry import stop_registry
from logitkit.stopping.stop_strings import checked_stops
from logitkit.vocabulary.marker import Marker
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["TextStream"]


class TextStream:
    """Turn token ids into text that can be displayed immediately, piece by piece.

    A piece never contains half a character or the beginning of a possible stop; these are held back until more tokens arrive.
    The text ends at EOS or at the first stop, which is found as in `StopStrings`. The pieces together are the text up to there,
    decoded from UTF-8, with U+FFFD for invalid bytes. Each object handles one text and keeps its position.

    Args:
        vocabulary: The vocabulary.
        stops: Any number of stops, as in `StopStrings`: str (encoded as UTF-8), bytes, token ids, or `re.compile(...)`. In a
            text, the name of a special token means both that token and the name spelled in ordinary tokens.
        include_stop: Whether the text includes the stop itself.
        limits: Bounds on the automaton, which has about one state per byte of the stops; more if they contain special tokens, or
            are patterns.

    Raises:
        ConfigurationError: A stop is empty, of another type, not an id of the vocabulary, a text that contains more than eight
            names of special tokens, or a pattern that `StopStrings` refuses; or another argument has the wrong type.
        PatternSyntaxError: A pattern uses syntax that is not regular, or not known here.
        PatternTooLarge: The stops are too long in total, or the patterns too complex.
        VocabularyError: The vocabulary has another type.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([b"a", b"b", "é".encode()[:1], "é".encode()[1:], None], eos_ids=[4])
        >>> stream = lk.TextStream(vocabulary, stops=["bbb"])
        >>> [stream.feed(token) for token in (0, 2, 3, 1, 1, 0)], stream.feed([0, 1, 1, 1, 0]), stream.stop
        (['a', '', 'é', '', '', 'bba'], 'a', 'bbb')
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        stops: Iterable[Marker | re.Pattern[str]] = (),
        include_stop: bool = False,
        *,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        check_limits(limits)
        # Iterated once, since it may be an iterator.
        self._given = tuple(stops) if isinstance(stops, Iterable) and not isinstance(stops, str | bytes) else stops
        checked = checked_stops(self._given, vocabulary)
        self._automaton = stop_registry(vocabulary).made(checked, vocabulary, limits)
        self._state = self._automaton.start
        self._include_stop = Boolean().check("include_stop", include_stop)
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""
        self._stop: Marker | re.Pattern[str] | None = None
        self._ended = False

    @property
    def stop(self) -> Marker | re.Pattern[str] | None:
        """The stop that ended the text, as the caller gave it, or None."""
        return self._stop

    @property
    def ended(self) -> bool:
        """Whether a stop, EOS or `finish` has ended the text, so that no more text follows."""
        return self._ended

    def feed(self, ids: SupportsIndex | Iterable[SupportsIndex]) -> str:
        """Add tokens, and return the new text that can be displayed.

        Args:
            ids: A token id or several; -1 means none.

        Raises:
            ConfigurationError: An id is not an integer.
            VocabularyError: An id is not in the vocabulary.
        """
        one = as_integer(ids)
        several = [one] if one is not None else ids if isinstance(ids, Iterable) else [ids]
        # All are checked before the first is added.
        return "".join([self._take(token) for token in [self._checked(token) for token in several] if token >= 0])

    def finish(self) -> str:
        """End the text, and return the part that was held back."""
        shown = "" if self._ended else self._decoder.decode(self._held, final=True)
        self._held, self._ended = b"", True
        return shown

    def _take(self, token: int) -> str:
        if self._ended:
            return ""
        after = self._automaton.next(self._state, token)
        if after == FIRED:
            return self._stopped(token)
        if self._automaton.is_eos(token):
            return self.finish()
        self._state = after
        self._held += self._vocabulary.tokens[token] or b""
        safe = len(self._held) - self._automaton.depth(after)
        shown = self._decoder.decode(self._held[:safe])
        self._held = self._held[safe:]
        return shown

    def _stopped(self, token: int) -> str:
        found = self._automaton.occurrence(self._state, token)
        assert found is not None
        self._stop = self._given[found.which]
        text = self._held + (self._vocabulary.tokens[token] or b"")
        self._held = text[: len(self._held) + (found.end if self._include_stop else found.begin)]
        return self.finish()

    def _checked(self, given: object) -> int:
        token = as_integer(given)
        if token is None:
            raise ConfigurationError(
                f"ids has {given!r} of type {type(given).__name__}; allowed are integer token ids, and -1 for none"
            )
        if not -1 <= token < self._vocabulary.size:
            raise VocabularyError(
                f"ids has the token {token}, but the vocabulary has ids from 0 to {self._vocabulary.size - 1}: it belongs to "
                "another model"
            )
        return token
