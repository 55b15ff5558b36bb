"""Loading a schema: from what users have to plain values in which equal parts are one object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, TypeAlias

from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.python_types import schema_of
from logitkit.parameters.documents import with_unique_keys

# A schema once it is loaded. Objects and lists are never changed, and those that are equal are identical.
Json: TypeAlias = "bool | int | float | Decimal | str | list[Json] | dict[str, Json] | None"

DEEPEST = 256
MOST_VALUES = 200_000
LONGEST_TEXT = 8_000_000
# Digits of an integer: by default, Python does not read more either.
MOST_DIGITS = 4000
_TOO_LARGE = 10**MOST_DIGITS

_SCALARS = frozenset({bool, int, float, str, Decimal, type(None)})

_ALLOWED = "a dict, a bool, JSON text, a pydantic model class or a Python type such as list[int]"


def load(schema: object) -> dict[str, Any] | bool:
    """Return a schema as plain values.

    Args:
        schema: A mapping, a bool, JSON text, a Python type, a pydantic model class or a pydantic `TypeAdapter`.

    Raises:
        ConfigurationError: It is something else, not JSON, or a type without a JSON Schema.
        UnsupportedSchema: It is too large, or nested too deeply.
    """
    return counted(schema)[0]


def counted(schema: object, most: int = MOST_VALUES) -> tuple[dict[str, Any] | bool, int]:
    """Return a schema as `load` does, and how many values it has.

    Args:
        schema: As in `load`.
        most: How many values it may have, if other documents have some of `MOST_VALUES` already.

    Raises:
        ConfigurationError: As `load`.
        UnsupportedSchema: As `load`.
    """
    if not isinstance(schema, str | bool | Mapping):
        schema = schema_of(schema)
    if isinstance(schema, str):
        schema = _parsed(schema)
    if not isinstance(schema, Mapping | bool):
        raise ConfigurationError(f"schema is of type {type(schema).__name__}; give {_ALLOWED}")
    return _interned(schema, most)  # type: ignore[return-value]


def key_of(schema: Json) -> str:
    """Return a text that tells a loaded schema from all others, those with another order of keys among them."""
    return json.dumps(schema, ensure_ascii=False, default=lambda number: {"\0": str(number)})


def _parsed(text: str) -> object:
    if len(text) > LONGEST_TEXT:
        raise UnsupportedSchema(f"the schema has {len(text)} characters, more than {LONGEST_TEXT}", "#")
    try:
        return json.loads(
            text,
            parse_float=_number,
            parse_int=_number,
            parse_constant=_refuse_constant,
            object_pairs_hook=with_unique_keys,
        )
    except RecursionError:
        raise _too_deep() from None
    except UnsupportedSchema:
        raise
    except ValueError as error:
        raise ConfigurationError(f"schema is a string, but not JSON text ({error}); give {_ALLOWED}") from None


def _number(text: str) -> int | Decimal:
    if len(text) <= MOST_DIGITS and text.lstrip("-").isdecimal():
        return int(text)
    try:
        return Decimal(text)
    except InvalidOperation:
        raise UnsupportedSchema(f"the exponent of the number {text[:40]} is too large", "#") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _too_deep() -> UnsupportedSchema:
    return UnsupportedSchema(
        f"the schema is nested more than {DEEPEST} levels deep; name its parts and refer to them", "#"
    )


class _Open:
    """A list or an object whose members are being copied."""

    def __init__(self, value: Mapping[object, object] | list[object] | tuple[object, ...]) -> None:
        self.keys: list[str] | None = None
        if isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str):
                    raise ConfigurationError(
                        f"the schema has the key {key!r}, a {type(key).__name__}; keys must be strings"
                    )
            self.keys = [str(key) for key in value]
            self.left: Iterator[object] = iter(value.values())
        else:
            self.left = iter(value)
        self.done: list[Json] = []

    def close(self, known: dict[object, Json]) -> Json:
        """Return the copy, or an equal one made before."""
        # Scalars by type and value, for 1, 1.0 and true are different; lists and objects are known by identity already.
        members = tuple([id(v) if isinstance(v, list | dict) else (type(v), v) for v in self.done])
        if self.keys is None:
            return known.setdefault(members, self.done)
        return known.setdefault((tuple(self.keys), members), dict(zip(self.keys, self.done, strict=True)))


def _interned(root: object, most: int) -> tuple[Json, int]:
    """Copy a value, without recursion: equal objects (with their keys in one order) and equal lists become one.

    Returns the copy, and how many values it has.
    """
    known: dict[object, Json] = {}
    path: list[_Open] = []
    value: object = root
    count = 0
    while True:
        count += 1
        if count > most:
            others = "" if most == MOST_VALUES else ", counted together with the documents read before it"
            raise UnsupportedSchema(f"the schema has more than {MOST_VALUES} values{others}", "#")
        # Most values are scalars, and whether something is a mapping takes long to tell.
        if type(value) not in _SCALARS and isinstance(value, Mapping | list | tuple):
            if len(path) >= DEEPEST:
                raise _too_deep()
            path.append(_Open(value))
        else:
            copy = _scalar(value)
            if not path:
                return copy, count
            path[-1].done.append(copy)
        while path:
            try:
                value = next(path[-1].left)
                break
            except StopIteration:
                copy = path.pop().close(known)
                if not path:
                    return copy, count
                path[-1].done.append(copy)


def _scalar(value: object) -> Json:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        if abs(value) >= _TOO_LARGE:
            raise UnsupportedSchema(f"the schema has a number of more than {MOST_DIGITS} digits", "#")
        return int(value)
    if isinstance(value, float) and isfinite(value):
        return float(value)
    if isinstance(value, Decimal) and value.is_finite():
        # As most are; others keep their digits, as 1e400 and fractions longer than a float has them.
        return float(value) if abs(value.adjusted()) < 330 and Decimal(repr(float(value))) == value else value
    raise ConfigurationError(
        f"the schema contains {value!r}, which is not a JSON value; give dicts, lists, strings, numbers, bools and None"
    )
