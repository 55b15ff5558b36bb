"""How many characters the texts of an automaton, or of a tree, have."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.characters.components import components
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.patterns.syntax import Alternate, Atomic, Characters, Concat, Machine, Node, Repeat

__all__ = ["WIDEST", "has_all_lengths", "longest", "shortest", "widths"]


def longest(dfa: SymbolDfa) -> int | None:
    """Return the length of the longest text, or None if texts may be of any length."""
    length: dict[int, int] = {}
    # A state's successors come before it. All states are alive, so a cycle allows texts of any length.
    for component in components(dfa.moves):
        state = component[0]
        if len(component) > 1 or state in dfa.moves[state]:
            return None
        length[state] = max((length[t] + 1 for t in dfa.moves[state]), default=0)
    return length[0]


def shortest(dfa: SymbolDfa) -> NDArray[np.int64]:
    """Return [S] the length of the shortest text from each state on."""
    before: list[list[int]] = [[] for _ in dfa.moves]
    for state, row in enumerate(dfa.moves):
        for target in row:
            before[target].append(state)
    found = np.full(len(before), -1)
    length, reached = 0, [state for state, accepts in enumerate(dfa.accepting) if accepts]
    while reached:
        found[reached] = length
        length += 1
        reached = list({state for target in reached for state in before[target] if found[state] < 0})
    return found


def has_all_lengths(dfa: SymbolDfa) -> bool:
    """Whether each state has texts of all lengths from that of its shortest one on.

    So it is if each accepting state leads to another one. Then there is a text of one character more than the shortest one, and
    so on: follow a shortest text to an accepting state, and from there on only accepting states.
    """
    rows = (row for row, accepts in zip(dfa.moves, dfa.accepting, strict=True) if accepts)
    return all(any(dfa.accepting[target] for target in row) for row in rows)


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
