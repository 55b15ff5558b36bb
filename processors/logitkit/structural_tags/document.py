"""The values of a structural tag in JSON, with their paths: every error says where it is, what was given and what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.document import DEEPEST, load
from logitkit.json_schema.python_types import schema_of
from logitkit.parameters.place import shown
from logitkit.parameters.scalars import as_integer

__all__ = ["JsonPart", "plain_document"]

# Longer names are not misspellings, and are not compared.
LONGEST_NAME = 64

ALLOWED = "a dict or JSON text"

# The fields that hold a schema.
SCHEMA_FIELDS = ("json_schema", "schema")


def plain_document(given: object) -> dict[str, Any]:
    """Return a document as a copy that is made of plain JSON values.

    Raises:
        ConfigurationError: It is not an object, not JSON, too large, or nested too deeply; or a type in it has no JSON Schema.
    """
    if not isinstance(given, Mapping | str):
        raise ConfigurationError(f"document is {shown(given)} of type {type(given).__name__}; allowed is {ALLOWED}")
    given = _with_schemas(given)
    try:
        found = load(given)
    except (ConfigurationError, UnsupportedSchema) as error:
        reason = error.reason if isinstance(error, UnsupportedSchema) else str(error)
        raise ConfigurationError(reason.replace("schema", "document")) from None
    if not isinstance(found, dict):
        raise ConfigurationError(f"document is the JSON text {shown(given)}; allowed is the text of an object")
    return found


def _with_schemas(value: Any, depth: int = 0) -> Any:
    """Return a value in which each Python type that stands for a schema is replaced by its JSON Schema."""
    if depth == DEEPEST:  # `load` refuses it
        return value
    if isinstance(value, Mapping):
        return {
            name: schema_of(inside)
            if name in SCHEMA_FIELDS and not isinstance(inside, Mapping | bool | str)
            else _with_schemas(inside, depth + 1)
            for name, inside in value.items()
        }
    return [_with_schemas(item, depth + 1) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, slots=True)
class JsonPart:
    """A value in a document.

    Args:
        path: Its path, such as `format.elements[1]`.
        value: The value.
    """

    path: str
    value: Any

    def refused(self, reason: str) -> ConfigurationError:
        """Return the error for something at this place."""
        return ConfigurationError(f"{self.path}: {reason}")

    def refuse(self, allowed: str) -> ConfigurationError:
        """Return the error for this value, given what is allowed."""
        return ConfigurationError(f"{self.path} is {shown(self.value)}; allowed is {allowed}")

    def inside(self, name: str) -> JsonPart:
        """Return the value of a field of this object."""
        return JsonPart(f"{self.path}.{name}" if self.path else name, self.value[name])

    def has(self, name: str) -> bool:
        """Whether this object has a field; one that is null counts as left out."""
        return self.value.get(name) is not None

    def check_fields(self, required: Collection[str], optional: Collection[str] = ()) -> None:
        """Check that this is an object with the fields of its type.

        Raises:
            ConfigurationError: It is not an object, lacks a field, or has an unknown one.
        """
        here = self.path or "the document"
        if not isinstance(self.value, dict):
            raise self.refuse("an object")
        known = [*required, *optional]
        for name in self.value:
            if name not in known:
                near = get_close_matches(name, known, n=1) if len(name) < LONGEST_NAME else []
                hint = f"; did you mean {near[0]!r}?" if near else "."
                raise ConfigurationError(
                    f"{here} has the unknown field {shown(name)}{hint} Allowed are {', '.join(known)}"
                )
        for name in required:
            if name not in self.value:
                raise ConfigurationError(f"{here} lacks the field {name!r}")

    def text(self, name: str) -> str:
        """Return a field that is a text."""
        part = self.inside(name)
        part.check_text()
        return str(part.value)

    def check_text(self, may_be_empty: bool = True) -> None:
        """Raise `ConfigurationError` if this is not a text that can be written in UTF-8."""
        allowed = "a text" if may_be_empty else "a text that is not empty"
        if not isinstance(self.value, str) or not (self.value or may_be_empty):
            raise self.refuse(allowed)
        if any("\ud800" <= character <= "\udfff" for character in self.value):
            raise self.refuse(f"{allowed}, without lone surrogates")

    def texts(self, name: str) -> tuple[str, ...]:
        """Return an optional field that is a list of texts, none of which is empty."""
        if not self.has(name):
            return ()
        parts = self.items(name)
        for part in parts:
            part.check_text(may_be_empty=False)
        return tuple(part.value for part in parts)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return an optional field that is true or false."""
        if name not in self.value:
            return default
        if not isinstance(self.value[name], bool):
            raise self.inside(name).refuse("true or false")
        return bool(self.value[name])

    def integer(self, name: str, least: int) -> int:
        """Return a field that is an integer from `least` on."""
        found = as_integer(self.value[name])
        if found is None or found < least:
            raise self.inside(name).refuse(f"an integer from {least}")
        return found

    def items(self, name: str, least: int = 0) -> list[JsonPart]:
        """Return the items of a field that is a list."""
        part = self.inside(name)
        if not isinstance(part.value, list) or len(part.value) < least:
            raise part.refuse("a list with at least one item" if least else "a list")
        return [JsonPart(f"{part.path}[{number}]", item) for number, item in enumerate(part.value)]

    def token(self) -> str | int:
        """Return this value as a token: an id, or a text."""
        if isinstance(self.value, str):
            self.check_text(may_be_empty=False)
            return self.value
        found = as_integer(self.value)
        if found is None or found < 0:
            raise self.refuse("a token: its id, an integer from 0, or its text")
        return found
