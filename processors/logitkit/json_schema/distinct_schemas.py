"""Schemas by what they demand: those that differ in annotations alone are read and written once."""

from __future__ import annotations

from typing import Any

from logitkit.json_schema.keywords import ANNOTATIONS, OF_LIST, OF_NAMES, OF_ONE

__all__ = ["DistinctSchemas"]

DEEPEST = 40


class DistinctSchemas:
    """Numbers the schemas of one loaded document, in which equal lists and equal objects are one already.

    Example:
        >>> schemas = DistinctSchemas()
        >>> one, other = {"type": "string", "title": "A"}, {"description": "B", "type": "string"}
        >>> schemas.number(one) == schemas.number(other)
        True
        >>> schemas.number({"properties": {"title": one}}) == schemas.number({"properties": {}})
        False
    """

    def __init__(self) -> None:
        # By identity, and with each schema itself, so that no other one takes its place.
        self._known: dict[int, tuple[Any, int]] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._depth = 0

    def number(self, schema: Any) -> int:
        """Return a number that schemas share if they hold the same keywords, but for annotations, in the same order."""
        known = self._known.get(id(schema))
        if known is None:
            self._depth += 1
            # An object that is nested deeper shares its number with the same object alone.
            key = self._key(schema) if self._depth < DEEPEST else ("", id(schema))
            self._depth -= 1
            known = self._known[id(schema)] = schema, self._numbers.setdefault(key, len(self._numbers))
        return known[1]

    def _key(self, schema: Any) -> tuple[object, ...]:
        if not isinstance(schema, dict):
            return (_same(schema),)
        return tuple(
            [(keyword, self._inside(keyword, value)) for keyword, value in schema.items() if keyword not in ANNOTATIONS]
        )

    def _inside(self, keyword: str, value: Any) -> object:
        if keyword in OF_NAMES and isinstance(value, dict):
            return tuple([(name, self.number(schema)) for name, schema in value.items()])
        if keyword in OF_LIST and isinstance(value, list):
            return tuple([self.number(schema) for schema in value])
        if keyword in OF_ONE:
            return self.number(value)
        return _same(value)


def _same(value: Any) -> object:
    return id(value) if isinstance(value, dict | list) else (type(value), value)
