"""Whether a value satisfies what has been read of a schema, and how its members are ordered in a text.

What has been read are sets of values, type by type, as the automata are built from them (`Values`). So a value belongs to them
exactly if some text of it does, in some order of its members. Example: of `{"anyOf": [{"type": "string"}, {"minimum": 10}]}`,
`"5"` and `12` belong to it, and `5` does not.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from logitkit.budget import spend
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import ANYTHING, Conjunction
from logitkit.json_schema.layout import MemberOrder, ordered
from logitkit.json_schema.member_names import names_in_order
from logitkit.json_schema.number_set import NumberSet
from logitkit.json_schema.objects import Objects
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.values import Branch

__all__ = ["Membership"]

# The cost of looking at a value, and at a number or a character of a string.
VALUE_STEPS, NUMBER_STEPS = 15, 150


class Membership:
    """Judges values by a schema. Results are remembered, so no value may change, or be deleted, while it is in use.

    Args:
        reader: Knows the schemas.

    Raises:
        UnsupportedSchema: (by all methods) A keyword cannot be honoured exactly.
        PatternTooLarge: (by all methods) A number has too many digits, or nothing is left of what may be spent.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._integers = NumberSet.integers(reader.limits)
        # By identity: equal values may be of different types.
        self._known: dict[tuple[Conjunction, int], bool] = {}

    def satisfies(self, conjunction: Conjunction, value: Any) -> bool:
        """Whether a value, as `json.loads` returns it without infinite numbers, satisfies a conjunction."""
        if conjunction == ANYTHING:
            return True
        spend(VALUE_STEPS)
        values = self._reader.values(conjunction)
        match value:
            case None:
                return values.null
            case bool():
                return value in values.booleans
            case int() | float():
                return self._is_number_of(values.numbers, value)
            case str():
                spend(len(value))
                if values.strings.contains(value) or not values.possible_strings.contains(value):
                    return values.strings.contains(value)
                raise UnsupportedSchema(f"whether {value!r} is of its format is not known")
        key = conjunction, id(value)
        if key not in self._known:
            self._known[key] = (
                any(self.is_member(objects, value) for objects in values.objects)
                if isinstance(value, dict)
                else any(self._is_array(arrays, value) for arrays in values.arrays)
            )
        return self._known[key]

    def _is_number_of(self, numbers: NumberSet, value: float) -> bool:
        if numbers is self._integers or numbers.is_everything:
            return numbers is not self._integers or isinstance(value, int) or value.is_integer()
        spend(NUMBER_STEPS)
        return numbers.contains(value)

    def is_member(self, objects: Objects, value: dict[str, Any]) -> bool:
        """Whether an object belongs to a set."""
        if not value.keys() >= {*objects.required} or any(a in value and b not in value for a, b in objects.needs):
            return False
        for names, minimum, maximum, _ in objects.counts:
            count = sum(names is None or names.contains(name) for name in value)
            if count < minimum or (maximum is not None and count > maximum):
                return False
        if not all(self.satisfies(objects.value_of(name), inside) for name, inside in value.items()):
            return False
        for least, most, parts, _ in objects.clauses:
            count = sum(any(self.is_member(one, value) for one in part) for part in parts)
            if count < least or (most is not None and count > most):
                return False
        return all(
            any(some.names.contains(name) and not self.satisfies(some.value, inside) for name, inside in value.items())
            for some in objects.failing
        )

    def _is_array(self, arrays: Arrays, value: list[Any]) -> bool:
        if len(value) < arrays.minimum or (arrays.maximum is not None and len(value) > arrays.maximum):
            return False
        if not all(self.satisfies(arrays.at(i), item) for i, item in enumerate(value)):
            return False
        for inside, minimum, maximum, begin, _ in arrays.contains:
            count = sum(self.satisfies(inside, item) for item in value[begin:])
            if count < minimum or (maximum is not None and count > maximum):
                return False
        if not (arrays.unique or arrays.repeated):
            return True
        are_different = len({*map(_key, value)}) == len(value)
        return not (arrays.repeated if are_different else arrays.unique)

    def in_order(self, conjunction: Conjunction, value: Any, order: MemberOrder = "schema") -> Any:
        """Return a value with the members of its objects in an order in which a mask allows them, if the value satisfies it."""
        if order == "any" or not isinstance(value, dict | list):
            return value
        spend(VALUE_STEPS)
        values = self._reader.values(conjunction)
        if isinstance(value, dict) and values.objects:
            objects = _first(values.objects, lambda one: self.is_member(one, value))
            listed = ordered(names_in_order(objects, self._reader.everything.strings), order)
            names = dict.fromkeys((*[name for name in listed if name in value], *ordered([*value], order)))
            return {name: self.in_order(objects.value_of(name), value[name], order) for name in names}
        if isinstance(value, list) and values.arrays:
            arrays = _first(values.arrays, lambda one: self._is_array(one, value))
            return [self.in_order(arrays.at(i), item, order) for i, item in enumerate(value)]
        return value


def _first(branches: tuple[Branch, ...], fits: Callable[[Branch], bool]) -> Branch:
    """Return the first branch that fits a value; if none does or there is but one, the first."""
    return branches[0] if len(branches) == 1 else next(filter(fits, branches), branches[0])


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
