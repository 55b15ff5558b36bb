"""The types of the arguments of a format, which may come from a configuration, and how many texts it may exclude."""

from __future__ import annotations

from logitkit.errors import ConfigurationError
from logitkit.vocabulary.marker import encoded

__all__ = ["LONGEST_EXCLUDED", "check_argument", "check_excluded"]

# Automata grow with the texts that they exclude.
MOST_EXCLUDED, LONGEST_EXCLUDED = 16, 64


def check_excluded(name: str, texts: tuple[str, ...]) -> None:
    """Refuse texts to exclude that are too many, or too long.

    Raises:
        ConfigurationError: They are.
    """
    if len(texts) > MOST_EXCLUDED or any(len(text) > LONGEST_EXCLUDED for text in texts):
        raise ConfigurationError(
            f"{name} has {len(texts)} texts of up to {max(map(len, texts))} characters; allowed are {MOST_EXCLUDED} texts of up "
            f"to {LONGEST_EXCLUDED}"
        )


def check_argument(name: str, kind: str, value: object) -> None:
    """Refuse an argument of a format that has a wrong type.

    Args:
        name: The name of the argument.
        kind: Its annotation.
        value: The value that was given.

    Raises:
        ConfigurationError: The type is wrong, or a text cannot be encoded.
    """
    if kind == "bool":
        texts: list[object] = []
        right = isinstance(value, bool)
    elif kind == "int | None":
        texts, right = [], value is None or (isinstance(value, int) and not isinstance(value, bool))
    elif kind.startswith("tuple"):
        texts = list(value) if isinstance(value, tuple) else [None]
        if name == "also":
            right = all(isinstance(pair, tuple) and len(pair) == 2 for pair in texts)
            texts = [text for pair in texts if isinstance(pair, tuple) for text in pair]
        else:
            right = all(texts)
        right = right and isinstance(value, tuple)
    else:
        texts, right = [value], True
        if value is None and kind == "str | None":
            texts = []
    if not right or not all(isinstance(text, str) for text in texts):
        allowed = (
            "a tuple of pairs of str"
            if name == "also"
            else kind.replace("tuple[str, ...]", "a tuple of str, none empty")
        )
        raise ConfigurationError(f"{name} is {value!r} of type {type(value).__name__}; allowed is {allowed}")
    for text in texts:
        encoded(name, str(text))
