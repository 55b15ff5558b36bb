"""Forms of values that are documents: a JSON Schema, and a configuration inside a configuration."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from logitkit.errors import ConfigurationError
from logitkit.parameters.form import Form
from logitkit.parameters.place import Place

__all__ = ["Nested", "SchemaForm"]


# The modules of what stands for a type without being a class, such as `list[int]`, `int | None` and `Annotated[int, ...]`.
_NOTATIONS = frozenset({"types", "typing", "typing_extensions"})


def is_python_type(value: object) -> bool:
    """Whether a value is a class or another type, such as `int | None`; None alone is not, since it may be a forgotten schema.

    Example:
        >>> [is_python_type(value) for value in (int, list[int], int | None, None, {}, "int", 1)]
        [True, True, True, False, False, False, False]
    """
    if isinstance(value, type):
        return True
    return type(value).__module__ in _NOTATIONS and not inspect.isroutine(value) and not inspect.ismodule(value)


class SchemaForm(Form):
    """A JSON Schema, its text or, in a configuration that is built in Python, a type."""

    allowed = "a JSON Schema: an object, true, false, or its text"
    types = (Mapping, bool, str)
    described: ClassVar[dict[str, Any]] = {"type": ["object", "boolean", "string"]}

    def fits(self, value: object) -> bool:
        """Whether a value is a schema or a type."""
        return super().fits(value) or is_python_type(value)

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
