"""What counts as a number argument: int, float, and the numbers of numpy."""

from __future__ import annotations

import math
from numbers import Real

from logitkit.errors import ConfigurationError

__all__ = ["as_real", "checked_real"]


def as_real(given: object) -> float | None:
    """Return a number as a float; None for all else, booleans, NaN and what no float can hold too.

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
    """Return a number of a range as a float.

    Args:
        name: The argument.
        given: Its value.
        least: The least that is allowed.
        most: The most.
        note: What to know about the range, for an error.

    Raises:
        ConfigurationError: It is no number of the range.
    """
    number = as_real(given)
    if number is None or not least <= number <= most:
        raise ConfigurationError(f"{name} is {given!r}; allowed are numbers from {least:g} to {most:g} ({note})")
    return number
