"""What counts as an integer argument: int, and the integers of numpy and torch, which tokenizers and configurations give."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from logitkit.errors import ConfigurationError

__all__ = ["as_integer", "checked_integer"]


def as_integer(given: object) -> int | None:
    """Return an integer as an int; None for all else, booleans and whole floats too.

    Args:
        given: An int, or an integer scalar of numpy or torch.

    Example:
        >>> import torch
        >>> as_integer(torch.tensor(3)), as_integer(True), as_integer(3.0)
        (3, None, None)
    """
    if type(given) is int:
        return given
    # Booleans of numpy and torch know their dtype; torch's would pass for 0 and 1.
    boolean = isinstance(given, bool) or str(getattr(given, "dtype", "")).removeprefix("torch.") == "bool"
    if boolean or not isinstance(given, SupportsIndex):
        return None
    try:
        return index(given)
    except (TypeError, ValueError, RuntimeError):
        return None


def checked_integer(name: str, given: object, least: int, most: int, note: str = "") -> int:
    """Return an integer of a range as an int.

    Args:
        name: The argument.
        given: Its value.
        least: The least that is allowed.
        most: The most.
        note: What to know about the range, for an error.

    Raises:
        ConfigurationError: It is no integer of the range.
    """
    number = as_integer(given)
    if number is None or not least <= number <= most:
        more = f" ({note})" if note else ""
        raise ConfigurationError(f"{name} is {given!r}; allowed are integers from {least} to {most}{more}")
    return number
