"""The types whose values can be members of a set, as core schemas of pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["set_members"]

_UNHASHABLE = {"list", "set", "deque", "dict", "ordered-dict", "counter", "typed-dict", "generator"}
_SCALARS = ("int", "float", "str", "bool", "none")
_WRAPPERS = ("default", "function-before", "function-after", "function-wrap", "definitions", "custom-error")


def set_members(schema: Any, definitions: Mapping[str, Any]) -> Any | None:
    """Return the part of a type whose values have a hash, None if there is none.

    Args:
        schema: The type of the items of a set.
        definitions: The types to which others refer, by name.

    Example:
        >>> set_members({"type": "union", "choices": [{"type": "int"}, {"type": "list"}]}, {})
        {'type': 'union', 'choices': [{'type': 'int'}]}
    """
    return _members(schema, definitions, frozenset())


def _members(schema: Any, definitions: Mapping[str, Any], seen: frozenset[str]) -> Any | None:
    kind = schema["type"]
    if kind == "any":
        return {"type": "union", "choices": [{"type": scalar} for scalar in _SCALARS]}
    if kind == "union":
        choices = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
        kept = [found for choice in choices if (found := _members(choice, definitions, seen)) is not None]
        is_whole = len(kept) == len(choices) and all(a is b for a, b in zip(kept, choices, strict=True))
        return schema if is_whole else {**schema, "choices": kept} if kept else None
    if kind == "nullable":
        inner = _members(schema["schema"], definitions, seen)
        return (
            {"type": "none"} if inner is None else schema if inner is schema["schema"] else {**schema, "schema": inner}
        )
    if kind == "definition-ref":
        name = schema["schema_ref"]
        if name in seen or name not in definitions:
            return None
        defined = definitions[name]
        inner = _members(defined, definitions, seen | {name})
        return schema if inner is defined else inner
    if kind in _WRAPPERS:
        inner = _members(schema["schema"], definitions, seen)
        return inner if inner is None else schema if inner is schema["schema"] else {**schema, "schema": inner}
    return schema if _has_hash(schema, definitions, seen) else None


def _has_hash(schema: Any, definitions: Mapping[str, Any], seen: frozenset[str]) -> bool:
    """Whether all values of a type have a hash."""
    kind = schema["type"]
    if kind == "tuple":
        return all(_members(item, definitions, seen) is item for item in schema["items_schema"])
    if kind == "tagged-union":
        return all(_has_hash(choice, definitions, seen) for choice in schema["choices"].values())
    if kind == "json-or-python":
        return _members(schema["json_schema"], definitions, seen) is schema["json_schema"]
    if kind in ("model", "dataclass", "named-tuple"):
        fields = _fields(schema)
        return schema["cls"].__hash__ is not None and all(_members(f, definitions, seen) is f for f in fields)
    return kind not in _UNHASHABLE


def _fields(schema: Any) -> list[Any]:
    """Return the types of the fields of a class."""
    while schema["type"] not in ("model-fields", "dataclass-args", "named-tuple"):
        schema = schema["schema"]
    fields = schema["fields"]
    return [field["schema"] for field in (fields.values() if isinstance(fields, dict) else fields)]
