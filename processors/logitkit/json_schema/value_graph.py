"""The graph of an object or array, in which a value that leads from several places to one state is written once.

In a graph, each member that may be left out is read from each of the states before it:

    0 {"a" 1    0 {"b" 2    0 {"c" 3    1 , "b" 2    1 , "c" 3    2 , "c" 3

An edge reads a name and then a value. So the value of `"c"` would be written three times. If it is an object of a hundred
characters, three copies of it would be made deterministic, only to find that they do the same: after all of them comes state 3.
With 40 members, there would be 20 copies of each value on average.

So the edge is cut after the name. The names lead to a new state, from which one edge reads the value:

    0 {"c" 4    1 , "c" 4    2 , "c" 4    4 C 3

Two values are the same if their trees are the same object: the writer makes one tree for each conjunction.

Invariants: the texts are the same, and so is the minimal automaton. The states of the given graph keep their numbers, and new
ones come after them. A value that is one character, as a call is, stays where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Call, Characters, Graph, Node

__all__ = ["with_values_once"]


def with_values_once(rows: Sequence[Sequence[tuple[Node, Node | None, int]]], accepting: Sequence[bool]) -> Graph:
    """Return a graph in which each value is written once for each state that it leads to.

    Args:
        rows: For each state, its edges: what is read before a value, the value, and the state after it. None: there is no value.
        accepting: Whether each state accepts.

    Example:
        >>> from logitkit.patterns.charset import CharSet
        >>> from logitkit.patterns.syntax import Repeat
        >>> a, b, c = (Characters(CharSet.single(ord(letter))) for letter in "abc")
        >>> value = Repeat(c, 1, 5)
        >>> graph = with_values_once([[(a, value, 1), (b, value, 1)], []], [False, True])
        >>> graph.moves == (((a, 2), (b, 2)), (), ((value, 1),))
        True
    """
    places = Counter([(id(value), target) for row in rows for _, value, target in row if _is_large(value)])
    first = len(rows)
    before: dict[tuple[int, int], int] = {}
    values: list[tuple[tuple[Node, int], ...]] = []
    moves = []
    for row in rows:
        edges: list[tuple[Node, int]] = []
        for text, value, target in row:
            if value is None:
                edges.append((text, target))
            elif places[id(value), target] < 2:
                edges.append((concatenate([text, value]), target))
            else:
                state = before.setdefault((id(value), target), first + len(values))
                if state == first + len(values):
                    values.append(((value, target),))
                edges.append((text, state))
        moves.append(tuple(edges))
    return Graph((*moves, *values), (*accepting, *[False] * len(values)))


def _is_large(value: Node | None) -> bool:
    return value is not None and not isinstance(value, Call | Characters)
