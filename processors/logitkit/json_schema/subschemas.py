"""The schemas inside a schema: each with its place, or all replaced."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any

from logitkit.json_schema.keywords import OF_LIST, OF_NAMES, OF_ONE
from logitkit.json_schema.pointer import below

__all__ = ["replaced", "subschemas"]


def subschemas(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
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


def replaced(
    schema: Any, change: Callable[[Any], Any], keywords: AbstractSet[str] = OF_ONE | OF_LIST | OF_NAMES
) -> Any:
    """Return a copy of a schema in which the schemas directly inside are replaced.

    Args:
        schema: An object that is a schema.
        change: Returns the replacement of a schema.
        keywords: The keywords whose schemas are replaced.

    Example:
        >>> replaced({"items": [{}, True], "properties": {"a": {}}}, lambda schema: 1, {"items"})
        {'items': [1, 1], 'properties': {'a': {}}}
    """
    found = dict(schema)
    for keyword in keywords & schema.keys():
        inside = schema[keyword]
        if keyword in OF_NAMES and isinstance(inside, dict):
            found[keyword] = {name: change(value) for name, value in inside.items()}
        elif keyword in OF_LIST and isinstance(inside, list):
            found[keyword] = [change(value) for value in inside]
        elif keyword in OF_ONE:
            found[keyword] = change(inside)
    return found
