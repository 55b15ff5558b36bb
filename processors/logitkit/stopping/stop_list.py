"""The validation of a list of stops."""

from __future__ import annotations

from logitkit.parameters.forms import elements
from logitkit.vocabulary.marker import as_marker, check_vocabulary
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["checked_stops"]


def checked_stops(stops: object, vocabulary: Vocabulary) -> tuple[bytes | int, ...]:
    """Return the stops as bytes of text and token ids, in the given order; the list may be empty.

    Raises:
        ConfigurationError: The stops are not a list, or a stop is empty, of another type, not an id of the vocabulary, or a
            text that contains too many names of special tokens.
        VocabularyError: The vocabulary has another type.
    """
    check_vocabulary(vocabulary)
    given = elements("stops", stops, "texts and token ids")
    return tuple(as_marker(f"stops[{i}]", stop, vocabulary) for i, stop in enumerate(given))
