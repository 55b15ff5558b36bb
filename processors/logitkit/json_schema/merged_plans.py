"""Plans of one part as one minimal graph, so that branches with equal members have them once.

By hand, for the branches `{"a": A, "c": C}` and `{"b": B, "c": C}` of an `anyOf`, whose members are all required: each branch has
a plan of its own, with `"c": C` and the closing bracket in both. Each move is taken for one letter:

    before   0 -> 1, 0 -> 6    1 {"a" 2    2 , 3    3 {"c" 4    4 } 5
                               6 {"b" 7    7 , 8    8 {"c" 9    9 } 10
    after    0 {"a" 1    0 {"b" 1    1 , 2    2 {"c" 3    3 } 4

Two moves are the same letter if they have the same name, text and value. The letters are not compared in any other way: two
values may have texts in common, which are joined later, when the values are written in place.

The automaton of all values is minimal in any case. But without this, each value in it would be written for each branch first:
dozens of times for an object with a few `oneOf`.
"""

from __future__ import annotations

from typing import TypeAlias

from logitkit.budget import spent
from logitkit.compiler.bytes.pushdown_views import bits
from logitkit.compiler.characters.minimise import minimise
from logitkit.compiler.characters.positions import positions_of
from logitkit.compiler.characters.subset import determinise
from logitkit.errors import PatternTooLarge
from logitkit.json_schema.plan import Move, Names
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.syntax import Characters, Empty, Graph, Node

__all__ = ["merged"]

# Smaller graphs are not worth it.
FEWEST_MOVES = 60

# The moves of each state, and which states accept.
Rows: TypeAlias = tuple[list[list[Move]], list[bool]]


def merged(rows: Rows, limits: Limits) -> Rows:
    """Return the minimal graph of the same texts, or the given one if it is small, or if the other one is not smaller.

    Args:
        rows: The graph. State 0 is the start.
        limits: Bounds on the work.

    Raises:
        PatternTooLarge: Nothing is left of what the schema may cost.
    """
    moves, ends = rows
    if sum(map(len, moves)) < FEWEST_MOVES:
        return rows
    letters: dict[object, int] = {}
    examples: list[Move] = []

    def letter(move: Move) -> Node:
        if move.value is None and move.names is None and isinstance(move.text, Empty):
            return move.text
        # Texts are shared, so that equal ones most often are the same.
        names = (move.names.strings.key, move.names.excluded) if isinstance(move.names, Names) else move.names
        key = names, None if isinstance(move.text, Empty) else id(move.text), move.value
        number = letters.setdefault(key, len(examples))
        if number == len(examples):
            examples.append(move)
        return Characters(CharSet.single(number))

    graph = Graph(tuple([tuple([(letter(move), move.target) for move in row]) for row in moves]), tuple(ends))
    try:
        positions = positions_of(graph, limits)
        masks = [1 << charset.ranges[0][0] for charset in positions.charsets]
        dfa = minimise(determinise(positions, masks, Limits(len(moves), limits.work)), limits)
    except PatternTooLarge:
        if spent() > limits.work:
            raise
        return rows
    if dfa is None or sum([mask.bit_count() for row in dfa.moves for mask in row.values()]) >= sum(map(len, moves)):
        return rows
    found = [
        [examples[bit]._replace(target=target) for target, mask in row.items() for bit in bits(mask)]
        for row in dfa.moves
    ]
    return found, dfa.accepting
