"""Number arguments: int, float, and the numbers of numpy."""

from __future__ import annotations

import math
from numbers import Real

from logitkit.errors import ConfigurationError

__all__ = ["as_real", "checked_real"]


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
        raise ConfigurationError(f"{name} is {given!r}; allowed are numbers from {least:g} to {most:g} ({note})")
    return number
