"""The schemas inside a schema, each with its place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logitkit.json_schema.document import Json
from logitkit.json_schema.keywords import OF_LIST, OF_NAMES, OF_ONE
from logitkit.json_schema.pointer import below

__all__ = ["subschemas"]


def subschemas(schema: Json) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the pointer of each object that is a schema, and the schema. Equal schemas are yielded once.

    Args:
        schema: As `document.load` returns it.

    Example:
        >>> [pointer for pointer, _ in subschemas({"items": {"not": {}}, "enum": [{}], "required": ["not"]})]
        ['#', '#/items', '#/items/not']
    """
    todo: list[tuple[Any, str]] = [(schema, "#")]
    seen: set[int] = set()
    while todo:
        value, pointer = todo.pop()
        if not isinstance(value, dict) or id(value) in seen:
            continue
        seen.add(id(value))
        yield pointer, value
        inner: list[tuple[Any, str]] = []
        for key, inside in value.items():
            if key in OF_NAMES and isinstance(inside, dict):
                inner += [(v, below(pointer, key, name)) for name, v in inside.items()]
            elif key in OF_LIST and isinstance(inside, list):
                inner += [(v, below(pointer, key, i)) for i, v in enumerate(inside)]
            elif key in OF_ONE:
                inner.append((inside, below(pointer, key)))
        todo += reversed(inner)
