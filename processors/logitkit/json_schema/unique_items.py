"""Arrays of which no two items may be equal: when that is sure, and when an item's values are few enough to remember them."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import NOTHING, both
from logitkit.json_schema.emptiness import is_empty
from logitkit.json_schema.layout import literal
from logitkit.json_schema.number_set import NumberSet
from logitkit.json_schema.string_set import StringSet
from logitkit.patterns.syntax import Node

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

__all__ = ["MOST_DIFFERENT", "few_values", "never_equal"]

# Longer arrays are not examined for items that are never equal.
MOST_COMPARED = 8
# The most values that may have to be remembered: there are states for each set of them.
MOST_DIFFERENT = 12


def never_equal(arrays: Arrays, reader: Reader) -> bool:
    """Whether no two items can be equal, as there is one only or each is of a kind of its own."""
    most = arrays.most
    if most is None or most > MOST_COMPARED:
        return most is not None and most < 2
    return all(is_empty(reader, both(arrays.at(i), arrays.at(j))) for i, j in combinations(range(most), 2))


def few_values(arrays: Arrays, reader: Reader) -> list[list[tuple[str, Node]]] | None:
    """Return the values that each item of the prefix, and those after it, may have, if they are few; each with its text."""
    if arrays.contains:
        return None
    found = []
    for index in range(len(arrays.prefix) + 1):
        values = reader.values(arrays.at(index)) if arrays.at(index) != NOTHING else reader.nothing
        numbers, strings = values.numbers.values(MOST_DIFFERENT), values.strings.values(MOST_DIFFERENT)
        if values.objects or values.arrays or numbers is None or strings is None:
            return None
        constants = [("null", literal("null"))] if values.null else []
        constants += [
            (text, literal(text)) for flag, text in ((False, "false"), (True, "true")) if flag in values.booleans
        ]
        constants += [(f"number {n}", NumberSet.of_values([n], reader.limits).tree()) for n in numbers]
        constants += [(f"string {s}", StringSet.of_values([s], reader.limits).tree()) for s in strings]
        found.append(constants)
    return found if len({name for constants in found for name, _ in constants}) <= MOST_DIFFERENT else None
