"""JSON values of a few schemas, as parts that a matcher reads: constants, booleans, strings, arrays and objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from logitkit.languages.combined import Repeated
from logitkit.languages.texts import LiteralText
from tests.languages.patterns import Chars, Several, Two

__all__ = ["Value", "expanded"]

# Characters of a string, but for escapes, which no vocabulary here can spell.
CHARACTERS = Several(Chars('"\\' + "".join(map(chr, range(32))), negated=True), 0, None)
ANY_TYPE = [{"type": name} for name in ("null", "boolean", "string", "array", "object")]


@dataclass(frozen=True, eq=False)
class Value:
    """A value by a schema, with some brackets that may yet open.

    Args:
        schema: The schema.
        root: The schema in which it stands, to which `#` refers.
        depth: How many brackets may yet open.
    """

    schema: Any
    root: Any
    depth: int

    @property
    def _key(self) -> tuple[str, str, int]:
        return json.dumps(self.schema), json.dumps(self.root), self.depth

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def expanded(value: Value) -> Iterator[tuple[Any, ...]]:
    """Return the ways to write a value, each as the parts of its text."""
    schema = value.schema
    if schema is True:
        for other in ANY_TYPE:
            yield from expanded(replace(value, schema=other))
        return
    if "$ref" in schema:
        assert schema["$ref"] == "#"
        yield from expanded(replace(value, schema=value.root))
        return
    for constant in [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]:
        yield (json.dumps(constant, separators=(",", ":")),)
    for other in schema.get("anyOf", ()):
        yield from expanded(replace(value, schema=other))
    match schema.get("type"):
        case "null":
            yield ("null",)
        case "boolean":
            yield from (("true",), ("false",))
        case "string":
            yield (Chars('"'), CHARACTERS, Chars('"'))
        case "array":
            for inside in _opened(value):
                item = replace(inside, schema=schema.get("items", True))
                yield ("[", _several(item, schema.get("minItems", 0), schema.get("maxItems")), "]")
        case "object" if "properties" in schema:
            for inside in _opened(value):
                yield from (("{", *members, "}") for members in _members(inside))
        case "object":
            for inside in _opened(value):
                name: Any = Value({"type": "string"}, True, 0)
                any_value: Any = replace(inside, schema=True)
                member = Two((name, Chars(":"), any_value))
                yield ("{", _several(member, 0, None), "}")


def _opened(value: Value) -> Iterator[Value]:
    """Return a value with a bracket less that may yet open, if one may. Brackets count where a value may nest without limit."""
    text = json.dumps(value.schema)
    is_closed = bool({"properties", "items"} & value.schema.keys())
    if is_closed and "$ref" not in text and "true" not in text:
        yield value
    elif value.depth:
        yield replace(value, depth=value.depth - 1)


def _several(item: Any, least: int, most: int | None) -> Any:
    """Return values with commas between them."""
    comma: Any = LiteralText(",")
    return Repeated(item, least, most, comma)


def _members(value: Value) -> Iterator[tuple[Any, ...]]:
    """Return the members of an object, in the order of the schema, for each choice of the optional ones."""
    names = list(value.schema["properties"])
    required = value.schema.get("required", [])
    for present in product((True, False), repeat=len(names)):
        chosen = [name for name, there in zip(names, present, strict=True) if there]
        if set(required) <= set(chosen):
            parts: list[Any] = []
            for number, name in enumerate(chosen):
                parts += ["," * (number > 0) + json.dumps(name) + ":"]
                parts += [replace(value, schema=value.schema["properties"][name])]
            yield tuple(parts)
