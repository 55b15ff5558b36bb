"""Where a text turns: a piece of text, in any tokenisation, or one token id."""

from __future__ import annotations

from typing import SupportsIndex, TypeAlias

from logitkit.errors import ConfigurationError, VocabularyError
from logitkit.integers import as_integer
from logitkit.vocabulary import Vocabulary

__all__ = ["Marker", "as_marker", "check_vocabulary"]

# As callers give it; many markers are special tokens, which have no text.
Marker: TypeAlias = str | bytes | SupportsIndex


def as_marker(name: str, given: object, vocabulary: Vocabulary) -> bytes | int:
    """Return a marker as the bytes of its text, or as a token id.

    Args:
        name: The argument, for an error.
        given: Text, as str (written in UTF-8) or bytes, or a token id.
        vocabulary: The tokens.

    Raises:
        ConfigurationError: It is empty, of another type, no text in UTF-8, or no id of the vocabulary.
    """
    if isinstance(given, str):
        try:
            given = given.encode()
        except UnicodeEncodeError as error:
            raise ConfigurationError(
                f"{name} has a lone surrogate at position {error.start}, which no text in UTF-8 can hold"
            ) from None
    if isinstance(given, bytes):
        if not given:
            raise ConfigurationError(f"{name} is empty; give at least one character, or a token id")
        return given
    token = as_integer(given)
    if token is None:
        raise ConfigurationError(
            f"{name} is {given!r} of type {type(given).__name__}; allowed are str, bytes and integer token ids"
        )
    if not 0 <= token < vocabulary.size:
        raise ConfigurationError(f"{name} is the token id {token}; allowed are ids from 0 to {vocabulary.size - 1}")
    return token


def check_vocabulary(vocabulary: object) -> None:
    """Raise `VocabularyError` for anything but a `Vocabulary`."""
    if not isinstance(vocabulary, Vocabulary):
        raise VocabularyError(
            f"vocabulary is a {type(vocabulary).__name__}; give a logitkit.Vocabulary (each adapter's vocabulary() makes one)"
        )
