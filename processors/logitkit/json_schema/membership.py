"""Whether a value satisfies what has been read of a schema, and how its members are ordered in a text.

What has been read are sets of values, type by type, as the automata are built from them (`Values`). So a value belongs to them
exactly if some text of it does, in some order of its members. Example: of `{"anyOf": [{"type": "string"}, {"minimum": 10}]}`,
`"5"` and `12` are values, and `5` is none.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import Conjunction
from logitkit.json_schema.object_plan import names_in_order
from logitkit.json_schema.objects import Objects
from logitkit.json_schema.reader import Reader

__all__ = ["in_order", "is_member", "satisfies"]


def satisfies(reader: Reader, conjunction: Conjunction, value: Any) -> bool:
    """Whether a value satisfies a conjunction.

    Args:
        reader: Knows the schemas of the conjunction.
        conjunction: What the value must satisfy.
        value: A value as `json.loads` returns it, without infinite numbers.

    Raises:
        UnsupportedSchema: A keyword cannot be honoured exactly.
        PatternTooLarge: A number has too many digits, or nothing is left of what the schema may cost.
    """
    values = reader.values(conjunction)
    match value:
        case None:
            return values.null
        case bool():
            return value in values.booleans
        case int() | float():
            return values.numbers.contains(value)
        case str():
            return values.strings.contains(value)
        case dict():
            return any(is_member(reader, objects, value) for objects in values.objects)
        case _:
            return any(_is_array(reader, arrays, value) for arrays in values.arrays)


def is_member(reader: Reader, objects: Objects, value: dict[str, Any]) -> bool:
    """Whether an object belongs to a set; the arguments and errors are those of `satisfies`."""
    if not value.keys() >= {*objects.required} or any(a in value and b not in value for a, b in objects.needs):
        return False
    for names, minimum, maximum, _ in objects.counts:
        count = sum(names is None or names.contains(name) for name in value)
        if count < minimum or (maximum is not None and count > maximum):
            return False
    if not all(satisfies(reader, objects.value_of(name), inside) for name, inside in value.items()):
        return False
    return all(
        any(some.names.contains(name) and not satisfies(reader, some.value, inside) for name, inside in value.items())
        for some in objects.failing
    )


def _is_array(reader: Reader, arrays: Arrays, value: list[Any]) -> bool:
    if len(value) < arrays.minimum or (arrays.maximum is not None and len(value) > arrays.maximum):
        return False
    if not all(satisfies(reader, arrays.at(i), item) for i, item in enumerate(value)):
        return False
    for inside, minimum, maximum, begin, _ in arrays.contains:
        count = sum(satisfies(reader, inside, item) for item in value[begin:])
        if count < minimum or (maximum is not None and count > maximum):
            return False
    return not arrays.unique or len({*map(_key, value)}) == len(value)


def _key(value: Any) -> Hashable:
    """Return what equal values have in common: 1 equals 1.0, and not true."""
    match value:
        case dict():
            return frozenset([(name, _key(inside)) for name, inside in value.items()])
        case list():
            return tuple(map(_key, value))
        case int() | float() if not isinstance(value, bool):
            return value
        case _:
            return type(value), value


def in_order(reader: Reader, conjunction: Conjunction, value: Any) -> Any:
    """Return a value with the members of its objects in an order in which a mask allows them, if the value satisfies it.

    The arguments and errors are those of `satisfies`.
    """
    values = reader.values(conjunction)
    if isinstance(value, dict) and values.objects:
        fitting = (objects for objects in values.objects if is_member(reader, objects, value))
        objects = next(fitting, values.objects[0])
        order = names_in_order(objects, reader.everything.strings)
        names = dict.fromkeys((*[name for name in order if name in value], *value))
        return {name: in_order(reader, objects.value_of(name), value[name]) for name in names}
    if isinstance(value, list) and values.arrays:
        found = (arrays for arrays in values.arrays if _is_array(reader, arrays, value))
        arrays = next(found, values.arrays[0])
        return [in_order(reader, arrays.at(i), item) for i, item in enumerate(value)]
    return value
