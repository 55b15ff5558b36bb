"""Texts as arguments: str, encoded as UTF-8, or bytes."""

from __future__ import annotations

from logitkit.errors import ConfigurationError
from logitkit.parameters.forms import elements
from logitkit.vocabulary.marker import encoded


def check_texts(name: str, given: object) -> tuple[str | bytes, ...]:
    """Return a list of texts as a tuple.

    Args:
        name: The argument's name, for the error.
        given: Its value.

    Raises:
        ConfigurationError: The value is a single text, is not a list, or is empty; or an element is not a text.
    """
    texts = tuple(check_text(f"{name}[{i}]", text) for i, text in enumerate(elements(name, given, "texts")))
    if not texts:
        raise ConfigurationError(f"{name} is empty; give at least one text")
    return texts


def check_text(name: str, given: object) -> str | bytes:
    """Return a text.

    Raises:
        ConfigurationError: The value is neither str nor bytes, or cannot be encoded as UTF-8.
    """
    if not isinstance(given, str | bytes):
        raise ConfigurationError(f"{name} is {given!r} of type {type(given).__name__}; allowed are str and bytes")
    encoded(name, given)
    return given


def as_bytes(text: str | bytes) -> bytes:
    """Return the bytes of a text that has been checked."""
    return text if isinstance(text, bytes) else text.encode()
