"""Integer and number arguments: those of Python, and the scalars of numpy and torch."""

from __future__ import annotations

import math
from numbers import Real
from operator import index
from typing import SupportsIndex

from logitkit.errors import ConfigurationError

__all__ = ["as_integer", "as_real", "checked_integer", "checked_real"]


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


def as_real(given: object) -> float | None:
    """Return a number as a float, or None for anything else, including booleans, NaN and numbers too large for a float.

    Args:
        given: An int or float, or one of numpy's.

    Example:
        >>> as_real(3), as_real(float("nan")), as_real(True), as_real("3")
        (3.0, None, None, None)
    """
    if isinstance(given, bool) or not isinstance(given, Real):
        return None
    try:
        number = float(given)
    except OverflowError:
        return None
    return None if math.isnan(number) else number


def checked_real(name: str, given: object, least: float, most: float, note: str) -> float:
    """Return a number in a range as a float.

    Args:
        name: The argument's name, for the error.
        given: Its value.
        least: The minimum.
        most: The maximum.
        note: A remark on the range, for the error.

    Raises:
        ConfigurationError: The value is not a number in range.
    """
    number = as_real(given)
    if number is None or not least <= number <= most:
        more = f" ({note})" if note else ""
        raise ConfigurationError(f"{name} is {given!r}; allowed are numbers from {least:g} to {most:g}{more}")
    return number
