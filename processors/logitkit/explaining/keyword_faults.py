"""The faults that single keywords of a schema find: those of objects and arrays, and those that apply other schemas."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple, Protocol

from logitkit.errors import LogitkitError
from logitkit.explaining.open_json import JsonNode
from logitkit.json_schema.pointer import below, step
from logitkit.json_schema.references import Place, References
from logitkit.runtime.remembering.spelling import spelled_number

__all__ = ["FAULTS_OF", "Fault", "Keyword"]


class Fault(NamedTuple):
    """A keyword that refuses a value.

    Args:
        pointer: The JSON pointer of the keyword in the schema, as a fragment.
        path: The JSON pointer of the value.
        value: The value of the keyword.
        inside: The faults of each branch of a union.
    """

    pointer: str
    path: str
    value: Any
    inside: tuple[list[Fault], ...] = ()


class FaultFinder(Protocol):
    """Finds the faults of values under parts of a schema, as `SchemaFaults` does."""

    references: References

    def below(self, place: Place, node: JsonNode | None, path: str) -> list[Fault]:
        """Return the faults of a value under a part of the schema."""

    def matches(self, pattern: str, name: JsonNode) -> bool:
        """Whether a name matches a pattern, or may still do so if it is not complete."""


@dataclass(frozen=True, slots=True)
class Keyword:
    """A keyword that is applied to a value.

    Args:
        check: Finds the faults of the values inside.
        place: The schema that it stands in.
        name: The keyword.
        node: The value.
        path: The JSON pointer of the value.
    """

    check: FaultFinder
    place: Place
    name: str
    node: JsonNode
    path: str

    @property
    def value(self) -> Any:
        """The value of the keyword."""
        return self.place.value[self.name]

    def fault(self, *inside: list[Fault]) -> list[Fault]:
        """Return the fault of this keyword."""
        return [Fault(below(self.place.pointer, self.name), self.path, self.value, inside)]

    def fault_if(self, refused: object) -> list[Fault]:
        """Return the fault of this keyword if there is one."""
        return self.fault() if refused else []

    def inside(self, *names: str | int) -> Place:
        """Return a schema in the value of the keyword."""
        value = self.value
        for name in names:
            value = value[name]
        return self.place.inside(value, self.name, *names)

    def same(self, *names: str | int) -> list[Fault]:
        """Return the faults of the value itself under a schema in the keyword."""
        return self.check.below(self.inside(*names), self.node, self.path)

    def child(self, name: str | int, child: JsonNode | None, *names: str | int) -> list[Fault]:
        """Return the faults of a member or an item under a schema in the keyword."""
        return self.check.below(self.inside(*names), child, step(self.path, name))


Faults = Iterable[Fault]


def _reference(here: Keyword) -> Faults:
    references = here.check.references
    try:
        if here.name != "$ref":
            target = references.dynamic_target(here.value, here.place, here.name)
        else:
            target = references.target(here.value, here.place, here.name)
    except LogitkitError:  # `lax` has left it out
        return []
    return here.check.below(target, here.node, here.path)


def _all_of(here: Keyword) -> Faults:
    return chain.from_iterable(here.same(number) for number in range(len(here.value)))


def _one_of(here: Keyword) -> Faults:
    options = [here.same(number) for number in range(len(here.value))]
    several = here.name == "oneOf" and here.node.closed and options.count([]) > 1
    return here.fault(*options) if several or all(options) else []


def _negation(here: Keyword) -> Faults:
    return here.fault_if(here.node.closed and not here.same())


def _condition(here: Keyword) -> Faults:
    holds = not here.same()
    branch = "then" if holds else "else"
    # A value that is not complete may still fail the condition, but not come to satisfy it.
    if branch not in here.place.value or (holds and not here.node.closed):
        return []
    return Keyword(here.check, here.place, branch, here.node, here.path).same()


def _size(here: Keyword) -> Faults:
    node = here.node
    size = len(node.text if node.kind == "string" else {*node.names} if node.kind == "object" else node.children)
    return here.fault_if(size > here.value if here.name[:3] == "max" else node.closed and size < here.value)


def _properties(here: Keyword) -> Faults:
    members = ((name.text, child) for name, child in here.node.members if name.closed and name.text in here.value)
    return chain.from_iterable(here.child(name, child, name) for name, child in members)


def _pattern_properties(here: Keyword) -> Faults:
    members = [(name, child) for name, child in here.node.members if name.closed]
    found = ((p, name.text, child) for p in here.value for name, child in members if here.check.matches(p, name))
    return chain.from_iterable(here.child(name, child, pattern) for pattern, name, child in found)


def _additional_properties(here: Keyword) -> Faults:
    known, patterns = (here.place.value.get(k, {}) for k in ("properties", "patternProperties"))
    extra = [
        (name.text, child)
        for name, child in here.node.members
        if not (name.text in known if name.closed else any(other.startswith(name.text) for other in known))
        and not any(here.check.matches(pattern, name) for pattern in patterns)
    ]
    if here.value is False:
        return here.fault_if(extra)
    return chain.from_iterable(here.child(name, child) for name, child in extra)


def _property_names(here: Keyword) -> Faults:
    return chain.from_iterable(here.check.below(here.inside(), name, here.path) for name, _ in here.node.members)


def _required(here: Keyword) -> Faults:
    missing = isinstance(here.value, list) and {*here.value} - {*here.node.names}
    return here.fault_if(here.node.closed and missing)


def _dependencies(here: Keyword) -> Faults:
    names = {name.text for name, _ in here.node.members if name.closed}
    for name in here.value:
        needed = here.value[name]
        if name in names and not isinstance(needed, list):
            yield from here.same(name)
        elif name in names and here.node.closed:
            yield from here.fault_if({*needed} - names)


def _items(here: Keyword) -> Faults:
    children, listed = [*enumerate(here.node.children)], isinstance(here.value, list)
    if listed:
        return chain.from_iterable(here.child(n, child, n) for n, child in children[: len(here.value)])
    first = here.place.value.get("items" if here.name == "additionalItems" else "prefixItems")
    if not isinstance(first, list) and here.name == "additionalItems":
        return []
    rest = children[len(first) if isinstance(first, list) else 0 :]
    return here.fault_if(rest) if here.value is False else chain.from_iterable(here.child(n, c) for n, c in rest)


def _contains(here: Keyword) -> Faults:
    least, most = (here.place.value.get(k, other) for k, other in (("minContains", 1), ("maxContains", 2**31)))
    found = [child for n, child in enumerate(here.node.children) if child and not here.child(n, child)]
    return here.fault_if((here.node.closed and len(found) < least) or sum(c.closed for c in found) > most)


def _unique_items(here: Keyword) -> Faults:
    values = [_value(child.raw) for child in here.node.children if child and child.closed]
    return here.fault_if(here.value and len({*values}) < len(values))


def _value(text: bytes) -> Hashable:
    """Return the same for two JSON texts if their values are equal."""
    try:
        return _hashable(json.loads(text, parse_int=_spelled, parse_float=_spelled))
    except RecursionError:
        return text


def _spelled(text: str) -> bytes:
    return spelled_number(text.encode())


def _hashable(value: Any) -> Hashable:
    """Return the same for two JSON values if they are equal. Their numbers are bytes."""
    if isinstance(value, dict):
        return frozenset((name, _hashable(member)) for name, member in value.items())
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


_KEYWORDS: dict[tuple[str | None, Callable[[Keyword], Faults]], str] = {
    (None, _reference): "$dynamicRef $recursiveRef $ref",
    (None, _all_of): "allOf",
    (None, _one_of): "anyOf oneOf",
    (None, _negation): "not",
    (None, _condition): "if",
    ("string", _size): "maxLength minLength",
    ("object", _size): "maxProperties minProperties",
    ("object", _properties): "properties",
    ("object", _pattern_properties): "patternProperties",
    ("object", _additional_properties): "additionalProperties",
    ("object", _property_names): "propertyNames",
    ("object", _required): "required",
    ("object", _dependencies): "dependencies dependentRequired dependentSchemas",
    ("array", _size): "maxItems minItems",
    ("array", _items): "additionalItems items prefixItems",
    ("array", _contains): "contains",
    ("array", _unique_items): "uniqueItems",
}
FAULTS_OF = {(kind, name): faults for (kind, faults), names in _KEYWORDS.items() for name in names.split()}
"""Functions that return the faults of a keyword, by the JSON type of the value; None: of any type."""
