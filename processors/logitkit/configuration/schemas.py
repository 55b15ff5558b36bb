"""Values of a configuration that are JSON Schemas, and one of a few words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from logitkit.configuration.place import Place
from logitkit.errors import ConfigurationError


class SchemaForm:
    """A JSON Schema, or its text."""

    allowed = "a JSON Schema: an object, true, false, or its text"

    def fits(self, value: object) -> bool:
        """Whether it may be one."""
        return isinstance(value, Mapping | bool | str)

    def read(self, value: Any, place: Place) -> Any:
        """Return the schema, which the processor looks into."""
        if not self.fits(value):
            raise place.refuse(value, self.allowed)
        return value

    def write(self, value: Any) -> Any:
        """Return the schema.

        Raises:
            ConfigurationError: It has a number that `json.dumps` cannot write.
        """
        todo = [value]
        while todo:
            inside = todo.pop()
            if isinstance(inside, Decimal):
                raise ConfigurationError(
                    f"the schema has the number {inside}, which is no float; JSON forms have floats"
                )
            todo.extend(inside.values() if isinstance(inside, dict) else inside if isinstance(inside, list) else ())
        return value

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": ["object", "boolean", "string"]}


@dataclass(frozen=True, slots=True)
class Word:
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        return " or ".join(f'"{word}"' for word in self.words)

    def fits(self, value: object) -> bool:
        """Whether it is a string."""
        return isinstance(value, str)

    def read(self, value: Any, place: Place) -> str:
        """Return the word."""
        if value not in self.words:
            raise place.refuse(value, self.allowed)
        return str(value)

    def write(self, value: str) -> str:
        """Return the word."""
        return value

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"enum": list(self.words)}
