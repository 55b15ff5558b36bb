"""Keywords about a value as a whole, about numbers and about strings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from logitkit.budget import outside_budget
from logitkit.json_schema import checked, formats
from logitkit.json_schema.arrays import Arrays
from logitkit.json_schema.conjunction import NOTHING
from logitkit.json_schema.number_set import NumberSet
from logitkit.json_schema.objects import Objects, Piece
from logitkit.json_schema.references import Here, Place
from logitkit.json_schema.string_set import StringSet
from logitkit.json_schema.values import Values
from logitkit.limits import Limits

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def types(reader: Reader, here: Here) -> Values:
    """Return the values of some types."""
    given = here.place.value["type"]
    names = given if isinstance(given, list) else [given]
    if not all(isinstance(name, str) and name in _TYPES for name in names):
        raise checked.wrong(here.place, here.keyword, f"one of {', '.join(_TYPES)}, or a list of them")
    # In OpenAPI 3.0, a type is one name, and not a keyword beside a list.
    nullable = isinstance(given, str) and here.place.value.get("nullable") is True
    allowed = frozenset(names) | ({"null"} if nullable else set())
    if "integer" not in allowed or "number" in allowed:
        return reader.everything.of_types(allowed, reader.nothing)
    found = reader.everything.of_types(allowed | {"number"}, reader.nothing)
    return replace(found, numbers=NumberSet.integers(reader.limits))


def constant(reader: Reader, here: Here) -> Values:
    """Return one value."""
    return _constants(reader, here.place, here.keyword, [here.place.value["const"]])


def enumeration(reader: Reader, here: Here) -> Values:
    """Return some values."""
    given = here.place.value["enum"]
    if not isinstance(given, list):
        raise checked.wrong(here.place, here.keyword, "a list of values")
    return _constants(reader, here.place, here.keyword, given)


def _constants(reader: Reader, place: Place, keyword: str, given: list[Any]) -> Values:
    numbers = [v for v in given if isinstance(v, checked.JsonNumber) and not isinstance(v, bool)]
    strings = [v for v in given if isinstance(v, str)]
    reader.work.add(len(given))
    nobody = (Piece(StringSet.everything(reader.limits), NOTHING),)

    def members(value: dict[str, Any]) -> Objects:
        reader.work.add(len(value))
        names = tuple(value)
        properties = {name: reader.constant(place, keyword, inside) for name, inside in value.items()}
        return Objects(properties, nobody, names, names, constant=True, whole=value)

    def items(value: list[Any]) -> Arrays:
        reader.work.add(len(value))
        prefix = tuple([reader.constant(place, keyword, v) for v in value])
        return Arrays(prefix, NOTHING, len(value), len(value), whole=value)

    distinct = {id(v): v for v in given if isinstance(v, dict | list)}.values()
    return Values(
        None in given,
        frozenset(v for v in given if isinstance(v, bool)),
        NumberSet.of_values(numbers, reader.limits),
        StringSet.of_values(strings, reader.limits),
        tuple([members(v) for v in distinct if isinstance(v, dict)]),
        tuple([items(v) for v in distinct if isinstance(v, list)]),
    )


def length(reader: Reader, here: Here) -> Values:
    """Return the strings of a length, and all values of other types."""
    bound = checked.count(here.place, here.keyword)
    least, most = (bound, None) if here.keyword == "minLength" else (0, bound)
    strings = StringSet.of_length(least, most, reader.limits)
    return _strings(reader, strings)


def pattern(reader: Reader, here: Here) -> Values:
    """Return the strings that a pattern occurs in, and all values of other types."""
    found = StringSet.matching(checked.text(here.place, here.keyword), reader.limits)
    return _strings(reader, found)


def _strings(reader: Reader, strings: StringSet) -> Values:
    if not reader.counts:
        # Here it is known which keyword takes too many states.
        strings.expand()
    return replace(reader.everything, strings=strings)


def format_(reader: Reader, place: Place, found: Values) -> Values:
    """Return the values of a set that are of a format. One that is not enforced, or describes none of them, is ignored."""
    name = checked.text(place, "format")
    kind = formats.described(name)
    if kind is None:
        reader.ignore(place, "format", f"the format {name!r} is not known")
    elif (found.strings if kind == "string" else found.numbers).is_empty:
        reader.ignore(place, "format", f"the format {name!r} describes {kind}s, and no {kind} is possible here")
    elif name in formats.NOT_ENFORCED:
        reader.ignore(place, "format", f"the format {name!r} is not enforced: {formats.NOT_ENFORCED[name]}")
    elif kind == "string":
        old = place.dialect.old_formats
        strings = StringSet.of_format(name, reader.limits, old)
        doubtful = StringSet.possibly_of_format(name, reader.limits, old)
        return found.intersection(replace(reader.everything, strings=strings, doubtful=doubtful), reader.work)
    elif name in formats.INTEGERS:
        return replace(found, numbers=found.numbers & _integers(*formats.INTEGERS[name], reader.limits))
    return found


@lru_cache(maxsize=32)
@outside_budget()
def _integers(least: int, most: int, limits: Limits) -> NumberSet:
    return NumberSet.integers(limits) & NumberSet.at_least(least, limits) & NumberSet.at_most(most, limits)


def minimum(reader: Reader, here: Here) -> Values:
    """Return the numbers from a bound on, and whatever is no number."""
    return _bounded(reader, here.place, "minimum", "exclusiveMinimum", NumberSet.at_least)


def maximum(reader: Reader, here: Here) -> Values:
    """Return the numbers up to a bound, and whatever is no number."""
    return _bounded(reader, here.place, "maximum", "exclusiveMaximum", NumberSet.at_most)


def _bounded(reader: Reader, place: Place, inclusive: str, exclusive: str, bounded: Callable[..., NumberSet]) -> Values:
    # In draft 4 a flag beside the bound says whether it is exclusive.
    flag = place.value.get(exclusive)
    found = reader.everything.numbers
    if reader.has(place, inclusive):
        with reader.blaming(place, inclusive):
            found = bounded(checked.number(place, inclusive), reader.limits, exclusive=flag is True)
    if not isinstance(flag, bool) and reader.has(place, exclusive):
        with reader.blaming(place, exclusive):
            found &= bounded(checked.number(place, exclusive), reader.limits, exclusive=True)
    return replace(reader.everything, numbers=found)


def multiple_of(reader: Reader, here: Here) -> Values:
    """Return the multiples of a number, and whatever is no number."""
    divisor = checked.number(here.place, here.keyword)
    if divisor <= 0:
        raise checked.wrong(here.place, here.keyword, "a number above 0")
    return replace(reader.everything, numbers=NumberSet.multiples_of(divisor, reader.limits))
