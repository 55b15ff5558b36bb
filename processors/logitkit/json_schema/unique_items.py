"""Arrays of which no two items may be equal: when that is sure, and when an item's values are few enough to remember them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Any

from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import NOTHING, Conjunction, both
from logitkit.json_schema.constants import constant_text
from logitkit.json_schema.emptiness import LEVELS, is_empty, is_void
from logitkit.json_schema.layout import JSON_LITERALS, Layout, literal
from logitkit.json_schema.member_names import few_names
from logitkit.json_schema.number_set import NumberSet
from logitkit.json_schema.objects import Objects
from logitkit.json_schema.plan import Item
from logitkit.json_schema.values import Values
from logitkit.patterns.syntax import Empty

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

__all__ = ["MOST_DIFFERENT", "few_values", "never_equal"]

# Longer arrays are not examined for items that are never equal.
MOST_COMPARED = 8
# The most values that may have to be remembered: there are states for each set of them.
MOST_DIFFERENT = 12
# The most objects and arrays that are looked at; not all of them need to satisfy what is asked of their members together.
MOST_CANDIDATES = 64

_BOOLEANS = ((False, "false"), (True, "true"))


def never_equal(arrays: Arrays, reader: Reader) -> bool:
    """Whether no two items can be equal, as there is one only or each is of a kind of its own."""
    most = arrays.most
    if most is None or most > MOST_COMPARED:
        return most is not None and most < 2
    return all(is_empty(reader, both(arrays.at(i), arrays.at(j))) for i, j in combinations(range(most), 2))


def few_values(arrays: Arrays, reader: Reader, layout: Layout) -> list[list[tuple[str, Item]]] | None:
    """Return the values that each item of the prefix, and those after it, may have, if they are few.

    Each has a name, which equal values share, and the form in which it is written.

    Args:
        arrays: The arrays.
        reader: Knows the schemas.
        layout: How literals and strings are written.
    """
    if arrays.contains:
        return None
    found = []
    for index in range(len(arrays.prefix) + 1):
        items = _few_items(arrays.at(index), reader, layout) if arrays.at(index) != NOTHING else {}
        if items is None:
            return None
        found.append([*items.items()])
    names = {name: item for items in found for name, item in items}
    if len(names) > MOST_DIFFERENT or _take_too_much(names, arrays.most, reader.limits.states):
        return None
    return found


def _take_too_much(items: dict[str, Item], most: int | None, states: int) -> bool:
    """Whether objects and arrays among some items take more than half of all states: each is written for each set of others."""
    if all(value is None for _, value in items.values()):
        return False
    count = len(items)
    times = sum(comb(count - 1, used) for used in range(count if most is None else min(count, most)))
    return 2 * times * sum(map(len, items)) > states


def _few_items(conjunction: Conjunction, reader: Reader, layout: Layout) -> dict[str, Item] | None:
    """Return the values that satisfy a conjunction, by their names; None if they are not few."""
    values = reader.values(conjunction)
    numbers, strings = values.numbers.values(MOST_DIFFERENT), values.strings.values(MOST_DIFFERENT)
    if numbers is None or strings is None:
        return None
    nested = _few_nested(values, reader, LEVELS)
    if nested is None:
        return None
    literals = dict(zip(JSON_LITERALS, layout.literals, strict=True))
    found: dict[str, Item] = {"null": (literal(literals["null"]), None)} if values.null else {}
    found |= {text: (literal(literals[text]), None) for flag, text in _BOOLEANS if flag in values.booleans}
    found |= {f"number {n}": (NumberSet.of_values([n], reader.limits).tree(), None) for n in numbers}
    found |= {f"string {s}": (layout.string(s), None) for s in strings}
    for value, is_whole in nested:
        name = constant_text(_sorted(value), reader.limits)
        # Equal objects may be listed in several orders of their members.
        if name is None or name in found:
            continue
        constant = reader.constant(reader.references.root, "items", value)
        wanted = constant if is_whole else both(conjunction, constant)
        if not is_empty(reader, wanted):
            found[name] = Empty(), wanted
    return found


def _few(conjunction: Conjunction, reader: Reader, levels: int) -> list[Any] | None:
    """Return the values that may satisfy a conjunction, in the order of their members; None if they are not few."""
    values = reader.told(conjunction)
    if values is None or not values.is_exact:
        return None
    numbers, strings = values.numbers.values(MOST_DIFFERENT), values.strings.values(MOST_DIFFERENT)
    nested = _few_nested(values, reader, levels)
    if numbers is None or strings is None or nested is None:
        return None
    found = [*([None] if values.null else []), *values.booleans, *numbers, *strings, *[value for value, _ in nested]]
    return found if len(found) <= MOST_CANDIDATES else None


def _few_nested(values: Values, reader: Reader, levels: int) -> list[tuple[Any, bool]] | None:
    """Return the objects and arrays that may be in a set, and whether each is given as a whole; None if they are not few."""
    found: list[tuple[Any, bool]] = []
    branches: list[Objects | Arrays] = [*values.objects, *values.arrays]
    for branch in branches:
        if branch.whole is not None:
            found.append((branch.whole, True))
        elif not is_void(reader, branch):
            more = _few_of_branch(branch, reader, levels - 1) if levels else None
            if more is None:
                return None
            found += [(value, False) for value in more]
        if len(found) > MOST_CANDIDATES:
            return None
    reader.work.add(len(found))
    return found


def _few_of_branch(branch: Objects | Arrays, reader: Reader, levels: int) -> Sequence[Any] | None:
    return _objects(branch, reader, levels) if isinstance(branch, Objects) else _arrays(branch, reader, levels)


def _objects(objects: Objects, reader: Reader, levels: int) -> list[dict[str, Any]] | None:
    names = few_names(objects, reader.everything.strings)
    if names is None:
        return None
    found: list[dict[str, Any]] = [{}] if {*objects.required} <= {*names} else []
    for name in names:
        values = _few(objects.value_of(name), reader, levels)
        if values is None:
            return None
        without = [] if name in objects.required else found
        found = [*without, *[{**members, name: value} for members in found for value in values]]
        if len(found) > MOST_CANDIDATES:
            return None
        reader.work.add(len(found))
    return found


def _arrays(arrays: Arrays, reader: Reader, levels: int) -> list[list[Any]] | None:
    most = arrays.most
    if most is None:
        return None
    found: list[list[Any]] = []
    longest: list[list[Any]] = [[]]
    for index in range(most + 1):
        found += longest if index >= arrays.minimum else []
        values = _few(arrays.at(index), reader, levels) if index < most else []
        if values is None or len(found) + len(longest) * len(values) > MOST_CANDIDATES:
            return None
        longest = [[*items, value] for items in longest for value in values]
        if not longest:
            break
        reader.work.add(len(longest))
    return found


def _sorted(value: Any) -> Any:
    """Return a value with the members of its objects in the order of their names."""
    if isinstance(value, Mapping):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
