"""Forms of values that are documents: a JSON Schema, and a configuration inside a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from logitkit.errors import ConfigurationError
from logitkit.parameters.form import Form
from logitkit.parameters.place import Place

__all__ = ["Nested", "SchemaForm"]


class SchemaForm(Form):
    """A JSON Schema, or its text."""

    allowed = "a JSON Schema: an object, true, false, or its text"
    types = (Mapping, bool, str)
    described: ClassVar[dict[str, Any]] = {"type": ["object", "boolean", "string"]}

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


class Nested(Form):
    """A complete configuration, for a processor inside another one."""

    allowed = "a configuration of its own"
    types = (Mapping,)
    described: ClassVar[dict[str, Any]] = {"$ref": "#/$defs/config"}

    def read(self, value: Any, place: Place) -> Any:
        """Return the processor."""
        return place.reader(value, place.nested())
