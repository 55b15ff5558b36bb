"""The values of keywords, checked: an error says which value a schema may not have, and where."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, TypeAlias

from logitkit.errors import ConfigurationError
from logitkit.json_schema.references import Place

JsonNumber: TypeAlias = int | float | Decimal

# A schema that counts further is refused for its size anyway.
LARGEST = 2**31


def wrong(place: Place, keyword: str, allowed: str) -> ConfigurationError:
    """Return the error for a value that the keyword of a place must not have."""
    text = repr(place.value[keyword])
    shown = text if len(text) <= 60 else text[:57] + "..."
    return ConfigurationError(f"{keyword!r} at {place.pointer} is {shown}; allowed is {allowed}")


def count(place: Place, keyword: str) -> int:
    """Return a number of things."""
    value = place.value[keyword]
    if isinstance(value, bool) or not isinstance(value, JsonNumber) or value < 0:
        raise wrong(place, keyword, "an integer from 0")
    if value >= LARGEST:
        # Before its digits are written out, of which 1e999999999 has many.
        return LARGEST
    if value != int(value):
        raise wrong(place, keyword, "an integer from 0")
    return int(value)


def number(place: Place, keyword: str) -> JsonNumber:
    """Return a number."""
    value = place.value[keyword]
    if isinstance(value, bool) or not isinstance(value, JsonNumber):
        raise wrong(place, keyword, "a number")
    return value


def text(place: Place, keyword: str) -> str:
    """Return a string."""
    value = place.value[keyword]
    if not isinstance(value, str):
        raise wrong(place, keyword, "a string")
    return value


def texts(place: Place, keyword: str) -> list[str]:
    """Return a list of strings."""
    value = place.value[keyword]
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise wrong(place, keyword, "a list of strings")
    return value


def schemas(place: Place, keyword: str) -> list[Any]:
    """Return a list of schemas."""
    value = place.value[keyword]
    if not isinstance(value, list) or not all(isinstance(schema, dict | bool) for schema in value):
        raise wrong(place, keyword, "a list of schemas")
    return value


def named(place: Place, keyword: str) -> dict[str, Any]:
    """Return an object, of whatever it is."""
    value = place.value[keyword]
    if not isinstance(value, dict):
        raise wrong(place, keyword, "an object")
    return value
