"""A marker: a point in the text given as a string, in any tokenization, or as one token id.

In a string, the name of a special token means both that token and the name spelled in ordinary tokens.
"""

from __future__ import annotations

from typing import SupportsIndex, TypeAlias

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.parameters.scalars import as_integer
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["Marker", "as_marker", "check_goes_on", "check_vocabulary", "encoded", "token_of"]

# The types that callers may pass.
Marker: TypeAlias = str | bytes | SupportsIndex


def as_marker(name: str, given: object, vocabulary: Vocabulary) -> bytes | int:
    """Return a marker as the bytes of its text, or as a token id.

    Args:
        name: The argument's name, for the error.
        given: A str (encoded as UTF-8), bytes, or a token id.
        vocabulary: The vocabulary that defines ids and special tokens.

    Raises:
        ConfigurationError: The marker is empty, has another type, is not valid UTF-8, contains too many names of special tokens,
            or is not an id of the vocabulary.
    """
    if isinstance(given, str | bytes):
        text = encoded(name, given)
        if not text:
            raise ConfigurationError(f"{name} is empty; give at least one character, or a token id")
        vocabulary.special_names.check(name, given)
        return text
    token = as_integer(given)
    if token is None:
        raise ConfigurationError(
            f"{name} is {given!r} of type {type(given).__name__}; allowed are str, bytes and integer token ids"
        )
    if not 0 <= token < vocabulary.size:
        raise ConfigurationError(f"{name} is the token id {token}; allowed are ids from 0 to {vocabulary.size - 1}")
    return token


def encoded(name: str, text: str | bytes) -> bytes:
    """Return the bytes of a text; `name` is the argument's name, for the error.

    Raises:
        ConfigurationError: The text cannot be encoded as UTF-8.
    """
    try:
        return text if isinstance(text, bytes) else text.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"{name} has a lone surrogate at position {error.start}, which UTF-8 cannot encode"
        ) from None


def token_of(marker: str | bytes | int, vocabulary: Vocabulary) -> int | None:
    """Return the token that a marker is or names, or None for other text."""
    return marker if isinstance(marker, int) else vocabulary.special_names.token(marker)


def check_goes_on(name: str, marker: bytes | int, vocabulary: Vocabulary, what: str) -> None:
    """Check that text may follow a marker: it neither is an EOS token nor contains the name of one.

    Args:
        name: The argument's name, for the error.
        marker: The marker.
        vocabulary: The vocabulary.
        what: The text that EOS ends, for the error.

    Raises:
        ConfigurationError: It is or contains one.
    """
    token = token_of(marker, vocabulary)
    if token in vocabulary.eos_ids:
        named = f"the EOS id {token}" if isinstance(marker, int) else f"{shown(marker)}, the name of the EOS id {token}"
        raise ConfigurationError(f"{name} is {named}, which ends {what}; give another marker")
    if isinstance(marker, bytes):
        ends = vocabulary.special_names.named(marker).tokens.intersection(vocabulary.eos_ids)
        if ends:
            raise ConfigurationError(
                f"{name} is {shown(marker)}, which contains the name of the EOS id {min(ends)}, and EOS ends {what}; "
                "give another marker"
            )


def shown(marker: bytes) -> str:
    """Return a marker as an error shows it: as text, if it is UTF-8."""
    try:
        return repr(marker.decode())
    except UnicodeDecodeError:
        return repr(marker)


def check_vocabulary(vocabulary: object) -> None:
    """Raise `VocabularyError` if the value is not a `Vocabulary`."""
    if not isinstance(vocabulary, Vocabulary):
        raise VocabularyError(
            f"vocabulary is of type {type(vocabulary).__name__}; give a logitkit.Vocabulary (each adapter's vocabulary() makes "
            "one)"
        )
