"""Bounds on numbers as validators in Python compare them, as bounds in JSON Schema, where numbers are exact decimals."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

__all__ = [
    "BOUNDS",
    "EXACT_DIGITS",
    "Number",
    "allows_none",
    "decimal_bound",
    "float_bound",
    "integer_bound",
    "largest_multiple",
    "within",
]

Number: TypeAlias = int | float | Decimal | Fraction

SMALLEST = 1e-30
"""The least number that is greater than a bound of 0."""

# Numbers are read as floats, which are exact up to here; larger ones are written with an exponent by `dump_json`.
EXACT_DIGITS = 15

# The bits of a float.
_DIGITS = 53
LOWER = ("ge", "gt")
WITHIN: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "ge": operator.ge,
    "gt": operator.gt,
    "le": operator.le,
    "lt": operator.lt,
}
BOUNDS = tuple(WITHIN)
"""The names of bounds in a type."""


def within(found: dict[str, Any], bound: int) -> dict[str, Any]:
    """Return the schema of numbers less than a bound and greater than its negative, unless it has bounds of its own.

    Example:
        >>> within({"type": "integer", "minimum": 0}, 100)
        {'type': 'integer', 'minimum': 0, 'exclusiveMaximum': 100}
    """
    lower = {} if found.keys() & {"minimum", "exclusiveMinimum"} else {"exclusiveMinimum": -bound}
    upper = {} if found.keys() & {"maximum", "exclusiveMaximum"} else {"exclusiveMaximum": bound}
    return {**found, **lower, **upper}


def allows_none(name: str, value: Number) -> bool:
    """Whether no number is within a bound: it is NaN, or no float is beyond it.

    Example:
        >>> allows_none("ge", math.inf), allows_none("le", math.inf), allows_none("le", math.nan)
        (True, False, True)
    """
    # Only NaN differs from itself; `math.isnan` cannot take an integer beyond all floats.
    if value != value:
        return True
    beyond, most = (value if name in LOWER else -value), sys.float_info.max
    return beyond >= most if name in ("gt", "lt") else beyond > most


def integer_bound(name: str, value: Number) -> dict[str, int]:
    """Return the keyword that bounds integers, for a bound of pydantic; nothing if it excludes none.

    Args:
        name: `ge`, `gt`, `le` or `lt`.
        value: The bound, one that `allows_none` does not hold for.

    Example:
        >>> integer_bound("gt", 1.5), integer_bound("lt", 3), integer_bound("le", math.inf)
        ({'minimum': 2}, {'maximum': 2}, {})
    """
    if abs(value) == math.inf:
        return {}
    exact = Fraction(value)
    if name in LOWER:
        return {"minimum": math.floor(exact) + 1 if name == "gt" else math.ceil(exact)}
    return {"maximum": math.ceil(exact) - 1 if name == "lt" else math.floor(exact)}


def float_bound(name: str, value: Number) -> dict[str, int | float]:
    """Return the keyword that bounds floats.

    A text is rounded to the nearest float, so a text below 1 may be read as 1. Those up to the float before 1 are not.

    Args:
        name: `ge`, `gt`, `le` or `lt`.
        value: The bound, one that `allows_none` does not hold for.

    Example:
        >>> float_bound("lt", 1), float_bound("ge", 0), float_bound("le", Decimal("0.1"))
        ({'maximum': 0.9999999999999999}, {'minimum': 0}, {'maximum': 0.09999999999999999})
        >>> float_bound("gt", 0)
        {'minimum': 1e-30}
    """
    return _bound(name, value, Fraction)


def decimal_bound(name: str, value: Number) -> dict[str, int | float]:
    """Return the keyword that bounds decimals that are read from numbers: as the shortest text of the nearest float.

    Args:
        name: `ge`, `gt`, `le` or `lt`.
        value: The bound, one that `allows_none` does not hold for.

    Example:
        >>> decimal_bound("lt", 1), decimal_bound("le", Decimal("0.1")), decimal_bound("ge", 0.1)
        ({'maximum': 0.9999999999999999}, {'maximum': 0.1}, {'minimum': 0.10000000000000002})
    """
    return _bound(name, value, lambda number: Fraction(repr(number)))


def largest_multiple(step: float) -> int:
    """Return a bound up to which every multiple of a step, as a decimal, is a multiple for the validator, which reads floats.

    Example:
        >>> largest_multiple(0.5), largest_multiple(0.1)
        (4503599627370496, 3002399)
    """
    written = Fraction(repr(step))
    error = abs(Fraction(step) - written)
    if not error:
        return math.floor(Fraction(2**_DIGITS, written.denominator))
    # The remainder may differ by 1e-9: half of that is left for the error of a text, and for that of as many steps.
    return math.floor(Fraction(1, 2 * 10**9) / (Fraction(1, 2**_DIGITS) + error / written))


def _bound(name: str, value: Number, read: Callable[[float], Fraction]) -> dict[str, int | float]:
    """Return the first float within a bound, given which number a float stands for."""
    most = sys.float_info.max
    if not -most <= value <= most:
        # Texts beyond all floats are read as infinity, which only an infinite bound includes.
        if abs(value) == math.inf and name in ("ge", "le"):
            return {}
        return {"minimum": -most} if name in LOWER else {"maximum": most}
    found, exact, inwards = float(value), Fraction(value), math.inf if name in LOWER else -math.inf
    while math.isfinite(found) and not WITHIN[name](read(found), exact):
        # The first float after 0 has 324 digits.
        found = math.nextafter(found, inwards) if found else math.copysign(SMALLEST, inwards)
    # If no float is within the bound, this is infinity.
    plain = int(found) if found.is_integer() and abs(found) < 2**63 else found
    return {"minimum" if inwards > 0 else "maximum": plain}
