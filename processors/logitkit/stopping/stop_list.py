"""A list of stops, as callers give it and as automata are made of it."""

from __future__ import annotations

from collections.abc import Iterable

from logitkit.errors import ConfigurationError
from logitkit.marker import as_marker, check_vocabulary
from logitkit.vocabulary import Vocabulary

__all__ = ["checked_stops"]


def checked_stops(stops: object, vocabulary: Vocabulary) -> tuple[bytes | int, ...]:
    """Return stops as bytes of text and token ids, in the order given; there may be none.

    Raises:
        ConfigurationError: The stops are no list, or one is empty, of another type or no id of the vocabulary.
        VocabularyError: The vocabulary is of another type.
    """
    check_vocabulary(vocabulary)
    if isinstance(stops, str | bytes):
        raise ConfigurationError(f"stops is the single text {stops!r}; give a list of texts and token ids")
    if not isinstance(stops, Iterable):
        raise ConfigurationError(f"stops is {stops!r}; give a list of texts and token ids")
    return tuple(as_marker(f"stops[{i}]", stop, vocabulary) for i, stop in enumerate(stops))
