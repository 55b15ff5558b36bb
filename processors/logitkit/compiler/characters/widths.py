"""How many characters the texts of a tree have."""

from __future__ import annotations

from logitkit.patterns.syntax import Alternate, Atomic, Characters, Concat, Machine, Node, Repeat

__all__ = ["WIDEST", "widths"]

WIDEST = 2**64
"""The number of characters without a limit, as `re` counts."""


def widths(tree: Node) -> tuple[int, int]:
    """Return the least and the largest number of characters; `WIDEST` without a limit.

    An automaton is taken to have any texts but the empty one.

    Example:
        >>> from logitkit.patterns.parser import parse
        >>> widths(parse("ab?|[c-e]{2,5}")), widths(parse("a+"))[1] == WIDEST
        ((1, 5), True)
    """
    match tree:
        case Characters():
            return 1, 1
        case Concat(parts):
            found = list(map(widths, parts))
            return min(sum([least for least, _ in found]), WIDEST), min(sum([most for _, most in found]), WIDEST)
        case Alternate(options):
            found = list(map(widths, options))
            return min([least for least, _ in found]), max([most for _, most in found])
        case Repeat(node, minimum, maximum):
            least, most = widths(node)
            return min(least * minimum, WIDEST), WIDEST if maximum is None else min(most * maximum, WIDEST)
        case Atomic(node):
            return widths(node)
        case Machine():
            return 1, WIDEST
        case _:
            return 0, 0
