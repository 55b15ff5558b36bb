"""Forms of values that are documents: a JSON Schema, a configuration in a configuration, and objects whose keys must differ."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from logitkit.errors import ConfigurationError
from logitkit.parameters.form import Form
from logitkit.parameters.place import Place

__all__ = ["GrammarsForm", "Nested", "SchemaForm", "SchemasForm", "with_unique_keys"]


def with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the members of a JSON object as a dict; the argument `object_pairs_hook` of `json.loads`.

    Raises:
        ConfigurationError: Two have the same key.

    Example:
        >>> import json
        >>> json.loads('{"a": 1, "b": {"c": 2}}', object_pairs_hook=with_unique_keys)
        {'a': 1, 'b': {'c': 2}}
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ConfigurationError(
            f"an object has the key {twice!r:.80} twice; JSON readers keep one of them only, so remove one"
        )
    return found


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
        """Return the schema; its text if it has a number that is not a float, such as 1e400, which `json.dumps` cannot write."""
        todo = [value]
        while todo:
            inside = todo.pop()
            if isinstance(inside, Decimal):
                return _text(value)
            todo.extend(inside.values() if isinstance(inside, dict) else inside if isinstance(inside, list) else ())
        return value


class SchemasForm(Form):
    """JSON Schemas by URI. In Python, it may also be a folder; a configuration must not say what is read from the disk."""

    allowed = "an object of JSON Schemas by URI"
    types = (Mapping,)
    described: ClassVar[dict[str, Any]] = {"type": "object", "additionalProperties": SchemaForm.described}

    def check(self, name: str, given: Any) -> Any:
        """Return it.

        Raises:
            ConfigurationError: It is neither a mapping nor a folder.
        """
        if given is None or isinstance(given, Mapping | Path):
            return given
        raise ConfigurationError(f"{name} is {given!r:.80}; allowed are a dict of schemas by URI and a pathlib.Path")

    def read(self, value: Any, place: Place) -> Any:
        """Return the schemas."""
        if not isinstance(value, Mapping):
            raise place.refuse(value, f"{self.allowed}; a folder can only be passed to JsonSchema in Python")
        return {uri: SchemaForm().read(schema, place.inside(uri)) for uri, schema in value.items()}

    def write(self, value: Any) -> Any:
        """Return the schemas, each as `SchemaForm` does."""
        return {uri: SchemaForm().write(schema) for uri, schema in value.items()}


class GrammarsForm(Form):
    """Grammars in Lark's syntax, and JSON Schemas, by name."""

    allowed = "an object of grammars by name: text in Lark's syntax, or a JSON Schema"
    types = (Mapping,)
    described: ClassVar[dict[str, Any]] = {
        "type": "object",
        "additionalProperties": {"type": ["string", "object", "boolean"]},
    }

    def read(self, value: Any, place: Place) -> Any:
        """Return the grammars."""
        for name, grammar in super().read(value, place).items():
            if not isinstance(grammar, str | Mapping | bool):
                raise place.inside(name).refuse(
                    grammar, "a grammar in Lark's syntax, or a JSON Schema: an object, true or false"
                )
        return value

    def write(self, value: Any) -> Any:
        """Return the grammars, whose schemas are JSON already."""
        return dict(value)


class Nested(Form):
    """A complete configuration, for a processor inside another one."""

    allowed = "a configuration of its own"
    types = (Mapping,)
    described: ClassVar[dict[str, Any]] = {"$ref": "#/$defs/config"}

    def read(self, value: Any, place: Place) -> Any:
        """Return the processor."""
        return place.reader(value, place.nested())


def _text(value: Any) -> str:
    """Return the JSON text of a value whose numbers may be decimals."""
    match value:
        case Decimal():
            # Without a point it would be read as an integer.
            text = str(value)
            return text if {*text} & {*".E"} else f"{text}.0"
        case dict():
            return "{" + ", ".join([f"{_text(key)}: {_text(inside)}" for key, inside in value.items()]) + "}"
        case list():
            return "[" + ", ".join(map(_text, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)
