"""How many of the last tokens count."""

from __future__ import annotations

from logitkit.errors import ConfigurationError
from logitkit.integers import as_integer

__all__ = ["LONGEST_WINDOW", "checked_window"]

LONGEST_WINDOW = 2**24


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
