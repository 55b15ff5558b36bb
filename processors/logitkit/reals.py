"""What counts as a number argument: int, float, and the numbers of numpy."""

from __future__ import annotations

import math
from numbers import Real

__all__ = ["as_real"]


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
