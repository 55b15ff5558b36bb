"""The markers around a section of reasoning, as arguments of a processor."""

from __future__ import annotations

from logitkit.errors import ConfigurationError
from logitkit.parameters import Either, Text, TokenId
from logitkit.vocabulary.marker import Marker, as_marker, check_goes_on
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["MARKER", "section_marker"]

# The form of a marker in a configuration.
MARKER = Either((TokenId(), Text()))

# The maximum length of a marker in bytes; real ones have ten to twenty.
LONGEST_MARKER = 256


def section_marker(name: str, given: Marker, vocabulary: Vocabulary) -> bytes | int:
    """Return a marker as the bytes of its text, or as a token id.

    Args:
        name: The argument's name, for the error.
        given: A str (encoded as UTF-8) or bytes, of at most 256 bytes, or a token id.
        vocabulary: The vocabulary.

    Raises:
        ConfigurationError: The marker is empty, too long, of another type, not an id of the vocabulary, or a text that contains
            more than eight names of special tokens; or it is or contains EOS.
    """
    marker = as_marker(name, given, vocabulary)
    if isinstance(marker, bytes) and len(marker) > LONGEST_MARKER:
        raise ConfigurationError(f"{name} has {len(marker)} bytes; allowed are up to {LONGEST_MARKER}")
    check_goes_on(name, marker, vocabulary, "the whole text, not only a section")
    return marker
