"""The part of a type whose values may be members of a set: those that Python can hash.

By hand: of `set[int | list[int]]`, the texts of `set[int]` are accepted. `[[1]]` would be read as a set with a list, which is an
error. Of `set[list[int] | tuple[int, ...]]`, none is: pydantic reads `[1]` as the list, although a tuple would do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["set_members"]

_UNHASHABLE = {"list", "set", "deque", "dict", "ordered-dict", "counter", "typed-dict", "generator"}
_SCALARS = ("int", "float", "str", "bool", "none")
_WRAPPERS = ("default", "function-before", "function-after", "function-wrap", "definitions", "custom-error")

# The brackets with which the texts of a type begin. Those of a type that is not here may begin with either.
_ARRAYS, _OBJECTS, _EITHER = frozenset("["), frozenset("{"), frozenset("[{")
_BRACKETS = {
    **dict.fromkeys(("list", "set", "frozenset", "deque", "generator", "tuple"), _ARRAYS),
    **dict.fromkeys(("dict", "ordered-dict", "counter", "typed-dict", "tagged-union", "dataclass"), _OBJECTS),
    **dict.fromkeys(
        (*_SCALARS, "bytes", "decimal", "date", "time", "datetime", "timedelta", "uuid", "url"), frozenset()
    ),
    **dict.fromkeys(("multi-host-url", "enum", "literal"), frozenset()),
}

# Where the type is that decides how the texts of another one begin.
_INNER = {
    **dict.fromkeys((*_WRAPPERS, "nullable", "model"), "schema"),
    "json-or-python": "json_schema",
    "lax-or-strict": "lax_schema",
}


def set_members(schema: Any, definitions: Mapping[str, Any]) -> Any | None:
    """Return the part of a type whose values have a hash, None if there is none.

    Args:
        schema: The type of the items of a set.
        definitions: The types to which others refer, by name.

    Example:
        >>> set_members({"type": "union", "choices": [{"type": "int"}, {"type": "list"}]}, {})
        {'type': 'union', 'choices': [{'type': 'int'}]}
    """
    return _Members(definitions).of(schema)


class _Members:
    """Finds the parts of types whose values have a hash.

    Args:
        definitions: The types to which others refer, by name.
    """

    def __init__(self, definitions: Mapping[str, Any]) -> None:
        self._definitions = definitions
        # The names of types of which all values have a hash; None until a type refers to another one.
        self._whole: set[str] | None = None
        # The names of the other types around the one that is looked at.
        self._around: set[str] = set()

    def of(self, schema: Any) -> Any | None:
        """Return the part of a type whose values have a hash, or None if there is none."""
        kind = schema["type"]
        if kind == "any":
            return {"type": "union", "choices": [{"type": scalar} for scalar in _SCALARS]}
        if kind == "union":
            return self._of_union(schema)
        if kind == "nullable":
            inner = self.of(schema["schema"])
            return {"type": "none"} if inner is None else _narrowed(schema, "schema", inner)
        if kind == "definition-ref":
            return self._of_reference(schema)
        if kind in _WRAPPERS:
            inner = self.of(schema["schema"])
            return inner if inner is None else _narrowed(schema, "schema", inner)
        return schema if self._has_hash(schema) else None

    def _of_reference(self, schema: Any) -> Any | None:
        name = schema["schema_ref"]
        if self._whole is None:
            # A type inside of itself has a hash if the rest of it has. So all are taken to have one, and those for which that is
            # wrong are left out until no more are.
            whole = self._whole = {*self._definitions}
            # Until then, a part of another one is of no use.
            self._around = {*self._definitions}
            while wrong := {n for n in whole if self.of(self._definitions[n]) is not self._definitions[n]}:
                whole -= wrong
            self._around.clear()
        if name in self._whole:
            return schema
        if name in self._around or name not in self._definitions:
            return None
        self._around.add(name)
        found = self.of(self._definitions[name])
        self._around.discard(name)
        return found

    def _of_union(self, schema: Any) -> Any | None:
        choices = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
        found = [self.of(choice) for choice in choices]
        # A text that a choice without a hash reads may not be left to another choice.
        taken = frozenset[str]().union(
            *[
                self._brackets(choice) - (frozenset() if part is None else self._brackets(part))
                for choice, part in zip(choices, found, strict=True)
                if part is not choice
            ]
        )
        kept = [part for part in found if part is not None and not self._brackets(part) & taken]
        is_whole = len(kept) == len(choices) and all(a is b for a, b in zip(kept, choices, strict=True))
        return schema if is_whole else _narrowed(schema, "choices", kept) if kept else None

    def _brackets(self, schema: Any, seen: frozenset[str] = frozenset()) -> frozenset[str]:
        """Return the brackets with which the texts of a type may begin."""
        kind = schema["type"]
        if kind == "union":
            choices = [choice[0] if isinstance(choice, tuple) else choice for choice in schema["choices"]]
            return frozenset[str]().union(*[self._brackets(choice, seen) for choice in choices])
        if kind == "model" and not schema.get("root_model"):
            return _OBJECTS
        inner = _INNER.get(kind)
        if inner is not None:
            return self._brackets(schema[inner], seen)
        if kind == "definition-ref" and schema["schema_ref"] in self._definitions.keys() - seen:
            name = schema["schema_ref"]
            return self._brackets(self._definitions[name], seen | {name})
        return _BRACKETS.get(kind, _EITHER)

    def _has_hash(self, schema: Any) -> bool:
        """Whether all values of a type have a hash."""
        kind = schema["type"]
        if kind == "tuple":
            return all(self.of(item) is item for item in schema["items_schema"])
        if kind == "tagged-union":
            return all(self.of(choice) is choice for choice in schema["choices"].values())
        if kind in ("json-or-python", "lax-or-strict"):
            inner = schema[_INNER[kind]]
            return self.of(inner) is inner
        if kind in ("model", "dataclass", "named-tuple"):
            return schema["cls"].__hash__ is not None and all(self.of(field) is field for field in _fields(schema))
        return kind not in _UNHASHABLE


def _narrowed(given: Any, key: str, inside: Any) -> Any:
    """Return a type with other types inside, under a key: the type itself if it has these, else one without a name."""
    if given[key] is inside:
        return given
    return {**{name: value for name, value in given.items() if name != "ref"}, key: inside}


def _fields(schema: Any) -> list[Any]:
    """Return the types of the fields of a class, or the type that a root model holds."""
    while schema["type"] not in ("model-fields", "dataclass-args", "named-tuple"):
        if schema.get("root_model"):
            return [schema["schema"]]
        if "schema" not in schema:
            # It describes itself.
            return []
        schema = schema["schema"]
    fields = schema["fields"]
    return [field["schema"] for field in (fields.values() if isinstance(fields, dict) else fields)]
