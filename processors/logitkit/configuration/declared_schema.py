"""The parameters of registered processors, declared in JSON Schema."""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from numbers import Real
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.parameters import Form
from logitkit.parameters.place import Place

__all__ = ["DeclaredSchema"]

# In Python a bool is an int; in JSON it is not.
TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    # Integers beyond all floats are finite too, and cannot be converted.
    "number": lambda v: (isinstance(v, int) and not isinstance(v, bool)) or (isinstance(v, float) and math.isfinite(v)),
    "array": lambda v: isinstance(v, list | tuple),
    "object": lambda v: isinstance(v, Mapping) and all(isinstance(key, str) for key in v),
}

Schema = Mapping[str, Any]

# A part of a value that a schema refuses: the keys that lead to it, the part, and the schema.
Refusal = tuple[tuple[str | int, ...], Any, Schema]

# The demand of each keyword on a value, and the type of the values that it limits; None: of all types.
CHECKS: dict[str, tuple[str | None, Callable[[Any, Schema], bool]]] = {
    "type": (None, lambda v, schema: not schema["type"] or any(TYPES[kind](v) for kind in _types(schema))),
    "enum": (None, lambda v, schema: any(type(word) is type(v) and _are_same(word, v) for word in schema["enum"])),
    "anyOf": (None, lambda v, schema: any(not any(_refusals(inside, v)) for inside in schema["anyOf"])),
    "required": ("object", lambda v, schema: all(name in v for name in schema["required"])),
    "additionalProperties": (
        "object",
        lambda v, schema: schema["additionalProperties"] or all(name in schema.get("properties", {}) for name in v),
    ),
    "minimum": ("number", lambda v, schema: v >= schema["minimum"]),
    "maximum": ("number", lambda v, schema: v <= schema["maximum"]),
    "exclusiveMinimum": ("number", lambda v, schema: v > schema["exclusiveMinimum"]),
    "exclusiveMaximum": ("number", lambda v, schema: v < schema["exclusiveMaximum"]),
    "minLength": ("string", lambda v, schema: len(v) >= schema["minLength"]),
    "maxLength": ("string", lambda v, schema: len(v) <= schema["maxLength"]),
    "minItems": ("array", lambda v, schema: len(v) >= schema["minItems"]),
    "maxItems": ("array", lambda v, schema: len(v) <= schema["maxItems"]),
}

ANNOTATIONS = ("title", "description", "default", "examples")
KEYWORDS = (*CHECKS, "items", "properties", *ANNOTATIONS)

# The arrays and objects that may be open at once in a value: each level is a call on Python's stack.
DEEPEST = 64


def _is_list(value: Any) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)


# The demand on the value of each keyword of a schema, and its description; the others hold schemas.
_NUMBER = (lambda v: isinstance(v, Real | Decimal) and not isinstance(v, bool), "a number")
_COUNT = (lambda v: _NUMBER[0](v) and v >= 0, "a number from 0")
_NAMES = (lambda v: _is_list(v) and all(isinstance(name, str) for name in v), "a list of strings")
VALUES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "type": (lambda v: isinstance(v, str) or _NAMES[0](v), "a type or a list of types"),
    "enum": (_is_list, "a list of values"),
    "anyOf": (_is_list, "a list of schemas"),
    "required": _NAMES,
    "properties": (TYPES["object"], "an object of schemas"),
    "additionalProperties": (TYPES["boolean"], "true or false"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
}


@dataclass(frozen=True, eq=False)
class DeclaredSchema(Form):
    """A parameter whose values are described by a JSON Schema.

    Only the keywords below are allowed, so every value that the schema refuses is refused.

    Args:
        given: The schema.

    Raises:
        ConfigurationError: It has a keyword or a type that is not supported.
    """

    given: Schema

    def __post_init__(self) -> None:
        _check_schema(self.given, "the schema")

    @property
    def allowed(self) -> str:
        """A description of the allowed JSON values."""
        return f"a value of {_shown(self.given)}"

    def fits(self, value: object) -> bool:
        """Whether the schema allows a value."""
        return _nesting(value) <= DEEPEST and not any(_refusals(self.given, value))

    def read(self, value: Any, place: Place) -> Any:
        """Return the value.

        Raises:
            ConfigurationError: The schema does not allow it, or it is nested too deep.
        """
        if _nesting(value) > DEEPEST:
            raise ConfigurationError(f"{place.path} is nested more than {DEEPEST} deep; allowed are {DEEPEST} levels")
        for path, part, schema in _refusals(self.given, value):
            raise reduce(Place.inside, path, place).refuse(part, f"a value of {_shown(schema)}")
        return value

    def schema(self) -> dict[str, Any]:
        """Return the schema."""
        return deepcopy(dict(self.given))


def _shown(schema: Schema) -> str:
    return json.dumps({key: value for key, value in schema.items() if key not in ANNOTATIONS}, default=str)


def _check_schema(schema: object, where: str) -> None:
    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"{where} is of type {type(schema).__name__}; pass a JSON Schema, an object")
    for keyword in schema:
        if keyword not in KEYWORDS:
            raise ConfigurationError(
                f"{where} has the keyword {keyword!r}, which is not supported; allowed are {', '.join(KEYWORDS)}. Check "
                "everything else in the factory, and raise a ValueError"
            )
        if keyword in VALUES and not VALUES[keyword][0](schema[keyword]):
            raise ConfigurationError(
                f"{where} has {keyword!r}: {reprlib.repr(schema[keyword])}; allowed is {VALUES[keyword][1]}"
            )
    for kind in _types(schema):
        if kind not in TYPES:
            raise ConfigurationError(f"{where} has the type {kind!r}; allowed are {', '.join(TYPES)}")
    inner = {f"property {name!r}": inside for name, inside in schema.get("properties", {}).items()}
    inner |= {f"anyOf[{number}]": inside for number, inside in enumerate(schema.get("anyOf", ()))}
    inner |= {"items": schema["items"]} if "items" in schema else {}
    for name, inside in inner.items():
        _check_schema(inside, f"{where}, in {name},")


def _nesting(value: Any) -> int:
    """Return how many arrays and objects of a value are open at once, at most one more than `DEEPEST`."""
    depth, level = 0, [value]
    while depth <= DEEPEST and (level := [part for part in level if isinstance(part, list | tuple | Mapping)]):
        depth += 1
        inside = [part for whole in level for part in (whole.values() if isinstance(whole, Mapping) else whole)]
        # In Python, parts may be shared.
        level = [*{id(part): part for part in inside}.values()]
    return depth


def _are_same(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, where `true` is not 1."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_are_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_are_same(one[name], other[name]) for name in one)
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _types(schema: Schema) -> tuple[str, ...]:
    given = schema.get("type", ())
    return (given,) if isinstance(given, str) else tuple(given)


def _refusals(schema: Schema, value: Any, path: tuple[str | int, ...] = ()) -> Iterator[Refusal]:
    """Yield the parts of a value that a schema refuses: the value itself, or parts of it."""
    if not _allows(schema, value):
        yield path, value, schema
    elif TYPES["array"](value):
        for index, item in enumerate(value if "items" in schema else ()):
            yield from _refusals(schema["items"], item, (*path, index))
    elif TYPES["object"](value):
        for name, inside in schema.get("properties", {}).items():
            if name in value:
                yield from _refusals(inside, value[name], (*path, name))


def _allows(schema: Schema, value: Any) -> bool:
    """Whether a schema allows a value, apart from the items of an array and the members of an object."""
    checks = [CHECKS[keyword] for keyword in schema if keyword in CHECKS]
    try:
        return all(holds(value, schema) for kind, holds in checks if kind is None or TYPES[kind](value))
    except OverflowError:
        # A number of numpy is not compared with an integer beyond all floats.
        return False
