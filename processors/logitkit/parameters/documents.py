"""Forms of values that are documents: a JSON Schema, and a configuration inside a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.parameters.form import Form
from logitkit.parameters.place import Place

__all__ = ["Nested", "SchemaForm"]


class SchemaForm(Form):
    """A JSON Schema, or its text."""

    allowed = "a JSON Schema: an object, true, false, or its text"

    def fits(self, value: object) -> bool:
        """Whether it may be a schema."""
        return isinstance(value, Mapping | bool | str)

    def write(self, value: Any) -> Any:
        """Return the schema.

        Raises:
            ConfigurationError: It contains a number that `json.dumps` cannot write.
        """
        todo = [value]
        while todo:
            inside = todo.pop()
            if isinstance(inside, Decimal):
                raise ConfigurationError(
                    f"the schema has the number {inside}, which is not a float; JSON forms have floats"
                )
            todo.extend(inside.values() if isinstance(inside, dict) else inside if isinstance(inside, list) else ())
        return value

    def schema(self) -> dict[str, Any]:
        """Describe it."""
        return {"type": ["object", "boolean", "string"]}


class Nested(Form):
    """A complete configuration, for a processor inside another one."""

    allowed = "a configuration of its own"

    def fits(self, value: object) -> bool:
        """Whether it is an object."""
        return isinstance(value, Mapping)

    def read(self, value: Any, place: Place) -> Any:
        """Return the processor."""
        return place.configured(value)

    def schema(self) -> dict[str, Any]:
        """Return a reference to the schema of all configurations."""
        return {"$ref": "#/$defs/config"}
