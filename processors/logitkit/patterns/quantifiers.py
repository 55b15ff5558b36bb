"""Quantifiers: `*`, `+`, `?` and `{m,n}`, with their lazy and possessive forms."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from logitkit.errors import PatternSyntaxError

# The largest count that `re` accepts is one less.
COUNT_LIMIT = 0xFFFFFFFF

_BRACES = re.compile(r"\{(?:([0-9]+)|([0-9]*),([0-9]*))\}")
SIGNS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class Quantifier(NamedTuple):
    """The minimum and maximum number of repetitions, and the count that is tried first."""

    minimum: int
    maximum: int | None
    kind: Literal["greedy", "lazy", "possessive"]
    after: int


def read_quantifier(pattern: str, position: int) -> Quantifier | None:
    """Read a quantifier.

    Args:
        pattern: The whole pattern.
        position: Index of `*`, `+`, `?` or `{`.

    Returns:
        The quantifier with the index after it, or None if the brace is literal, as in `a{`, `a{}` and `a{x}`.

    Raises:
        PatternSyntaxError: The minimum is greater than the maximum, or a count is too large.

    Example:
        >>> read_quantifier("a{,3}?", 1)
        Quantifier(minimum=0, maximum=3, kind='lazy', after=6)
    """
    sign = pattern[position]
    if sign == "{":
        found = _BRACES.match(pattern, position)
        if found is None:
            return None
        exact, least, most = found.groups()
        minimum = _count(exact or least or "0", pattern, position)
        maximum = _count(exact or most, pattern, position) if exact or most else None
        if maximum is not None and maximum < minimum:
            reason = f"min repeat {minimum} greater than max repeat {maximum}"
            raise PatternSyntaxError(reason, pattern, position)
        after = found.end()
    else:
        minimum, maximum = SIGNS[sign]
        after = position + 1
    match pattern[after : after + 1]:
        case "?":
            return Quantifier(minimum, maximum, "lazy", after + 1)
        case "+":
            return Quantifier(minimum, maximum, "possessive", after + 1)
        case _:
            return Quantifier(minimum, maximum, "greedy", after)


def _count(digits: str, pattern: str, position: int) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(COUNT_LIMIT)) or int(significant) >= COUNT_LIMIT:
        reason = f"the repetition number is too large; the largest is {COUNT_LIMIT - 1}"
        raise PatternSyntaxError(reason, pattern, position)
    return int(significant)
