"""The parameters of registered processors, declared in JSON Schema."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
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
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v),
    "array": lambda v: isinstance(v, list | tuple),
    "object": lambda v: isinstance(v, Mapping) and all(isinstance(key, str) for key in v),
}

# Each limits only values of its type, as in JSON Schema.
LIMITS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("number", lambda v, limit: v >= limit),
    "maximum": ("number", lambda v, limit: v <= limit),
    "exclusiveMinimum": ("number", lambda v, limit: v > limit),
    "exclusiveMaximum": ("number", lambda v, limit: v < limit),
    "minLength": ("string", lambda v, limit: len(v) >= limit),
    "maxLength": ("string", lambda v, limit: len(v) <= limit),
    "minItems": ("array", lambda v, limit: len(v) >= limit),
    "maxItems": ("array", lambda v, limit: len(v) <= limit),
}

Schema = Mapping[str, Any]

# A part of a value that a schema refuses: the keys that lead to it, the part, and the schema.
Refusal = tuple[tuple[str | int, ...], Any, Schema]

ANNOTATIONS = ("title", "description", "default", "examples")
OTHERS = ("type", "enum", "anyOf", "items", "properties", "required", "additionalProperties")
KEYWORDS = (*OTHERS, *LIMITS, *ANNOTATIONS)


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
        return not any(_refusals(self.given, value))

    def read(self, value: Any, place: Place) -> Any:
        """Return the value.

        Raises:
            ConfigurationError: The schema does not allow it.
        """
        for path, part, schema in _refusals(self.given, value):
            raise reduce(Place.inside, path, place).refuse(part, f"a value of {_shown(schema)}")
        return value

    def schema(self) -> dict[str, Any]:
        """Return the schema."""
        return dict(self.given)


def _shown(schema: Schema) -> str:
    return json.dumps({key: value for key, value in schema.items() if key not in ANNOTATIONS}, default=str)


def _check_schema(schema: object, where: str) -> None:
    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"{where} is a {type(schema).__name__}; pass a JSON Schema, an object")
    for keyword in schema:
        if keyword not in KEYWORDS:
            raise ConfigurationError(
                f"{where} has the keyword {keyword!r}, which is not supported; allowed are {', '.join(KEYWORDS)}. Check "
                "everything else in the factory, and raise a ValueError"
            )
    for kind in _types(schema):
        if kind not in TYPES:
            raise ConfigurationError(f"{where} has the type {kind!r}; allowed are {', '.join(TYPES)}")
    if not isinstance(schema.get("additionalProperties", False), bool):
        raise ConfigurationError(f"{where} has a schema in additionalProperties; allowed are true and false")
    inner = {f"property {name!r}": inside for name, inside in schema.get("properties", {}).items()}
    inner |= {f"anyOf[{number}]": inside for number, inside in enumerate(schema.get("anyOf", ()))}
    inner |= {"items": schema["items"]} if "items" in schema else {}
    for name, inside in inner.items():
        _check_schema(inside, f"{where}, in {name},")


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
    types = _types(schema)
    if types and not any(TYPES[kind](value) for kind in types):
        return False
    if "enum" in schema and not any(type(word) is type(value) and word == value for word in schema["enum"]):
        return False
    for keyword, (kind, holds) in LIMITS.items():
        if keyword in schema and TYPES[kind](value) and not holds(value, schema[keyword]):
            return False
    if "anyOf" in schema and all(any(_refusals(inside, value)) for inside in schema["anyOf"]):
        return False
    if not TYPES["object"](value):
        return True
    lacks = any(name not in value for name in schema.get("required", ()))
    is_open = schema.get("additionalProperties", True)
    return not lacks and (is_open or all(name in schema.get("properties", {}) for name in value))
