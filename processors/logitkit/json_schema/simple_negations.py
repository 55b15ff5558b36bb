"""Whether what does not satisfy a conjunction can be written for sure, and is not much.

Items that `contains` asks for are counted in blocks only if each item either counts or does not. For `minContains` alone, an item
that matches need not count, so that no negation is needed, but then each item has states of its own:

    "contains": {"type": "integer"}                  the others are of other types: few states
    "contains": <an object of 30 required members>   30 ways not to be one: nothing is negated
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logitkit.json_schema.conjunction import NOTHING, Conjunction, negations

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

__all__ = ["negates_simply"]

# A simple negation has at most this many objects and arrays at each level, and at most this many levels.
MOST_BRANCHES = 10
LEVELS = 5


def negates_simply(reader: Reader, value: Conjunction) -> bool:
    """Return whether the negation of a conjunction is simple."""
    return all(_is_simple(reader, wrong, LEVELS) for wrong in negations(value))


def _is_simple(reader: Reader, value: Conjunction, levels: int) -> bool:
    if value in ((), NOTHING):
        return True
    values = reader.told(value) if levels else None
    if values is None or len(values.objects) + len(values.arrays) > MOST_BRANCHES:
        return False
    inside: set[Conjunction] = set()
    for objects in values.objects:
        if objects.failing or objects.clauses or any(count.minimum > 1 for count in objects.counts):
            return False
        inside.update(objects.properties.values(), [piece.value for piece in objects.pieces])
    for arrays in values.arrays:
        if arrays.contains or arrays.unique or arrays.repeated:
            return False
        inside.update(arrays.prefix, [arrays.items])
    return all(_is_simple(reader, some, levels - 1) for some in inside)
