"""The quantifiers of GBNF: `*`, `+`, `?`, `{m}`, `{m,}` and `{m,n}`."""

from __future__ import annotations

import re

from logitkit.errors import GrammarError
from logitkit.patterns.quantifiers import COUNT_LIMIT, SIGNS

__all__ = ["read_counts"]

_BRACES = re.compile(r"\{\s*([0-9]+)\s*(?:(,)\s*([0-9]*)\s*)?\}")


def read_counts(grammar: str, position: int) -> tuple[int, int | None, int]:
    """Read a quantifier.

    Args:
        grammar: The whole grammar.
        position: Index of `*`, `+`, `?` or `{`.

    Returns:
        The smallest and the largest number of copies (None = no limit), and the index after the quantifier.

    Raises:
        GrammarError: The braces do not contain counts in order, or a count is too large.

    Example:
        >>> read_counts("x{2, }", 1)
        (2, None, 6)
    """
    if grammar[position] in SIGNS:
        return *SIGNS[grammar[position]], position + 1
    found = _BRACES.match(grammar, position)
    if found is None:
        raise GrammarError("a repetition is written {m}, {m,} or {m,n}", grammar, position)
    least, most = (int(digits) if len(digits) < 20 else COUNT_LIMIT for digits in (found[1], found[3] or "0"))
    if max(least, most) >= COUNT_LIMIT:
        raise GrammarError(f"the count is too large; the largest is {COUNT_LIMIT - 1}", grammar, position)
    if found[3] and most < least:
        raise GrammarError(
            f"the counts {found[0]} are in reverse order; write the smaller one first", grammar, position
        )
    if not found[2]:
        return least, least, found.end()
    return least, most if found[3] else None, found.end()
