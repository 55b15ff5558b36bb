"""The ranges of the arguments that penalties have in common."""

from __future__ import annotations

from numbers import Real

from logitkit.errors import ConfigurationError
from logitkit.integers import as_integer

__all__ = ["LONGEST_WINDOW", "checked_integer", "checked_number", "checked_window"]

LONGEST_WINDOW = 2**24


def checked_number(name: str, given: object, least: float, most: float, note: str) -> float:
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
    number = _as_float(given)
    if number is None or not least <= number <= most:
        raise ConfigurationError(f"{name} is {given!r}; allowed are numbers from {least:g} to {most:g} ({note})")
    return number


def checked_integer(name: str, given: object, least: int, most: int) -> int:
    """Return an integer of a range as an int; see `checked_number`."""
    number = as_integer(given)
    if number is None or not least <= number <= most:
        raise ConfigurationError(f"{name} is {given!r}; allowed are integers from {least} to {most}")
    return number


def checked_window(given: object) -> int | None:
    """Return how many of the last tokens count, or None for all.

    Raises:
        ConfigurationError: It is neither None nor an integer of the range.
    """
    if given is None:
        return None
    window = as_integer(given)
    if window is None or not 1 <= window <= LONGEST_WINDOW:
        raise ConfigurationError(
            f"window is {given!r}; allowed are integers from 1 to {LONGEST_WINDOW}, and None to count all tokens"
        )
    return window


def _as_float(given: object) -> float | None:
    if isinstance(given, bool) or not isinstance(given, Real):
        return None
    try:
        return float(given)
    except OverflowError:
        return None
