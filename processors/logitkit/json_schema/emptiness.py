"""Conditions that are certainly empty: found out before branches multiply, and before any of them is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import NOTHING, Conjunction
from logitkit.json_schema.objects import Objects
from logitkit.json_schema.values import Values

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

# The number of levels that are looked at.
LEVELS = 3


def is_empty(reader: Reader, conjunction: Conjunction, levels: int = LEVELS) -> bool:
    """Whether certainly no value satisfies a conjunction, as far as its first levels show."""
    if not conjunction:
        return False
    if conjunction == NOTHING:
        return True
    values = reader.told(conjunction)
    if values is None or values.null or values.booleans:
        return False
    if not values.numbers.is_empty or not values.possible_strings.is_empty:
        return False
    if levels < 2:
        return not values.objects and not values.arrays
    void_objects = all(is_void(reader, branch, levels) for branch in values.objects)
    return void_objects and all(is_void(reader, branch, levels) for branch in values.arrays)


def is_void(reader: Reader, branch: Objects | Arrays, levels: int = LEVELS) -> bool:
    """Whether a branch is empty, for sure, as what some member or item must be is nothing."""
    if branch.whole is not None:
        return False
    if branch.is_empty:
        return True
    if isinstance(branch, Objects):
        reader.work.add(1 + len(branch.required))
        return any(is_empty(reader, branch.value_of(name), levels - 1) for name in branch.required)
    items = range(min(branch.minimum, len(branch.prefix) + 1))
    reader.work.add(1 + len(items))
    return any(is_empty(reader, branch.at(i), levels - 1) for i in items)


def without_void(reader: Reader, values: Values) -> Values:
    """Return a set without branches that are empty, for sure."""
    if len(values.objects) < 2 and len(values.arrays) < 2:
        return values
    objects = tuple([branch for branch in values.objects if not is_void(reader, branch)])
    arrays = tuple([branch for branch in values.arrays if not is_void(reader, branch)])
    return replace(values, objects=objects, arrays=arrays)


def few_texts(reader: Reader, conjunction: Conjunction, most: int) -> frozenset[str] | None:
    """Return a name for each value that satisfies a conjunction, if they are few, and none is an object or an array."""
    values = reader.told(conjunction)
    if values is None or values.objects or values.arrays or not values.is_exact:
        return None
    numbers, strings = values.numbers.values(most), values.strings.values(most)
    if numbers is None or strings is None:
        return None
    null = ["null"] if values.null else []
    return frozenset([*null, *map(str, values.booleans), *[f"#{n}" for n in numbers], *[f'"{s}' for s in strings]])
