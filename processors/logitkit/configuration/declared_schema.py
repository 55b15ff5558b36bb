"""Parameters that are declared in JSON Schema, as those of registered processors are."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.parameters import Form
from logitkit.parameters.place import Place

__all__ = ["DeclaredSchema"]

# A bool is an int to Python, and not to JSON.
TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda v: isinstance(v, str),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v),
    "array": lambda v: isinstance(v, list | tuple),
    "object": lambda v: isinstance(v, Mapping) and all(isinstance(key, str) for key in v),
}

# Each is applied to values of its type only, as JSON Schema has it.
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

ANNOTATIONS = ("title", "description", "default", "examples")
OTHERS = ("type", "enum", "anyOf", "items", "properties", "required", "additionalProperties")
KEYWORDS = (*OTHERS, *LIMITS, *ANNOTATIONS)


@dataclass(frozen=True, eq=False)
class DeclaredSchema(Form):
    """A parameter whose values a JSON Schema describes.

    Only keywords that are checked here are allowed, so that no value is taken that the schema refuses.

    Args:
        given: The schema.

    Raises:
        ConfigurationError: It has a keyword or a type that is not checked.
    """

    given: Mapping[str, Any]

    def __post_init__(self) -> None:
        _check_schema(self.given, "the schema")

    @property
    def allowed(self) -> str:
        """The allowed JSON values, in words."""
        return f"a value of {_shown(self.given)}"

    def fits(self, value: object) -> bool:
        """Whether the schema allows a value."""
        return _refused(self.given, value, ()) is None

    def read(self, value: Any, place: Place) -> Any:
        """Return the value.

        Raises:
            ConfigurationError: The schema does not allow it.
        """
        refused = _refused(self.given, value, ())
        if refused is not None:
            path, inside, schema = refused
            for key in path:
                place = place.inside(key)
            raise place.refuse(inside, f"a value of {_shown(schema)}")
        return value

    def schema(self) -> dict[str, Any]:
        """Return the schema."""
        return dict(self.given)


def _shown(schema: Mapping[str, Any]) -> str:
    return json.dumps({key: value for key, value in schema.items() if key not in ANNOTATIONS}, default=str)


def _check_schema(schema: object, where: str) -> None:
    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"{where} is a {type(schema).__name__}; give a JSON Schema, an object")
    for keyword in schema:
        if keyword not in KEYWORDS:
            raise ConfigurationError(
                f"{where} has the keyword {keyword!r}, which is not checked; allowed are {', '.join(KEYWORDS)}. Check "
                "anything else in the factory, and raise a ValueError"
            )
    for kind in _types(schema):
        if kind not in TYPES:
            raise ConfigurationError(f"{where} has the type {kind!r}; allowed are {', '.join(TYPES)}")
    for name, inside in schema.get("properties", {}).items():
        _check_schema(inside, f"{where}, property {name!r},")
    for inside in schema.get("anyOf", ()):
        _check_schema(inside, f"{where}, in anyOf,")
    if "items" in schema:
        _check_schema(schema["items"], f"{where}, in items,")
    if not isinstance(schema.get("additionalProperties", False), bool):
        raise ConfigurationError(f"{where} has a schema in additionalProperties; allowed are true and false")


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    given = schema.get("type", ())
    return (given,) if isinstance(given, str) else tuple(given)


# Where in a value a schema refuses something: the keys that lead there, what is there, and the schema.
_Refusal = tuple[tuple[str | int, ...], Any, Mapping[str, Any]]


def _refused(schema: Mapping[str, Any], value: Any, path: tuple[str | int, ...]) -> _Refusal | None:
    here = path, value, schema
    types = _types(schema)
    if types and not any(TYPES[kind](value) for kind in types):
        return here
    if "enum" in schema and not any(type(word) is type(value) and word == value for word in schema["enum"]):
        return here
    for keyword, (kind, holds) in LIMITS.items():
        if keyword in schema and TYPES[kind](value) and not holds(value, schema[keyword]):
            return here
    if "anyOf" in schema and all(_refused(inside, value, path) is not None for inside in schema["anyOf"]):
        return here
    if TYPES["array"](value) and "items" in schema:
        return next((r for i, v in enumerate(value) if (r := _refused(schema["items"], v, (*path, i)))), None)
    if TYPES["object"](value):
        properties = schema.get("properties", {})
        if any(name not in value for name in schema.get("required", ())):
            return here
        if not schema.get("additionalProperties", True) and any(name not in properties for name in value):
            return here
        known = ((name, value[name]) for name in properties if name in value)
        return next((r for name, v in known if (r := _refused(properties[name], v, (*path, name)))), None)
    return None
