"""Integer arguments: int, and the integer scalars of numpy and torch, which tokenizers and configurations contain."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from logitkit.errors import ConfigurationError

__all__ = ["as_integer", "checked_integer"]


def as_integer(given: object) -> int | None:
    """Return an integer as an int, or None for anything else, including booleans and whole floats.

    Args:
        given: An int, or an integer scalar of numpy or torch.

    Example:
        >>> import torch
        >>> as_integer(torch.tensor(3)), as_integer(True), as_integer(3.0)
        (3, None, None)
    """
    if type(given) is int:
        return given
    # numpy's and torch's booleans have a dtype; without this check, torch's would pass as 0 and 1.
    boolean = isinstance(given, bool) or str(getattr(given, "dtype", "")).removeprefix("torch.") == "bool"
    if boolean or not isinstance(given, SupportsIndex):
        return None
    try:
        return index(given)
    except (TypeError, ValueError, RuntimeError):
        return None


def checked_integer(name: str, given: object, least: int, most: int, note: str = "") -> int:
    """Return an integer in a range as an int.

    Args:
        name: The argument's name, for the error.
        given: Its value.
        least: The minimum.
        most: The maximum.
        note: A remark on the range, for the error.

    Raises:
        ConfigurationError: The value is not an integer in range.
    """
    number = as_integer(given)
    if number is None or not least <= number <= most:
        more = f" ({note})" if note else ""
        raise ConfigurationError(f"{name} is {given!r}; allowed are integers from {least} to {most}{more}")
    return number
