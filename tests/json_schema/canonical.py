"""The one text of a value that a schema's automaton writes: compact, keys in the schema's order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

from jsonschema.protocols import Validator
from referencing.jsonschema import DRAFT202012, specification_with

from tests.json_schema.judge import exact, judge

# Keywords that not every draft has.
LATER = {"const", "contains", "dependentRequired", "dependentSchemas", "if", "prefixItems", "propertyNames"}


def canonical(value: Any, validator: Validator | None = None) -> str:
    """Write a value.

    Args:
        value: A JSON value.
        validator: That of the schema (`judge`), whose order the keys take; without one, they stay as they are.
    """
    return _written(exact(value), [] if validator is None else [validator])


def canonical_under(value: Any, schema: Any) -> str:
    """Write a value in the key order of a schema."""
    return canonical(value, judge(schema))


def _written(value: Any, under: list[Validator]) -> str:
    if isinstance(value, dict):
        order, members = _members(value, under)
        inside = [f"{_written(k, [])}:{_written(value[k], members.get(k, []))}" for k in order]
        return "{" + ",".join(inside) + "}"
    if isinstance(value, list):
        return "[" + ",".join(_written(v, _items(value, i, under)) for i, v in enumerate(value)) + "]"
    if isinstance(value, Decimal):
        return _plain(value)
    return json.dumps(value, ensure_ascii=False)


def _plain(number: Decimal) -> str:
    if number == 0:
        return "0"
    if abs(number.adjusted()) > 500:
        return str(number)
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


class _Order:
    """Names in order of their appearance: those of `properties`, then those only mentioned, needed or allowed."""

    def __init__(self) -> None:
        self.declared: dict[str, None] = {}
        self.mentioned: dict[str, None] = {}
        self.needed: dict[str, None] = {}
        self.allowed: dict[str, None] = {}
        self.constant: list[str] | None = None


def _members(value: dict[str, Any], under: list[Validator]) -> tuple[list[str], dict[str, list[Validator]]]:
    order = _Order()
    members: dict[str, list[Validator]] = {k: [] for k in value}
    for validator in under:
        for applied in _applied(validator, value):
            _read(applied, value, order, members)
    if order.constant is not None:
        return order.constant, members
    known = (*order.declared, *order.mentioned, *order.needed, *order.allowed)
    names = [k for k in known if k in value]
    return list(dict.fromkeys((*names, *value))), members


def _applied(validator: Validator, value: Any, seen: tuple[int, ...] = ()) -> Iterator[tuple[Validator, str]]:
    """Go through the keywords that apply to the value itself, in the order of the document."""
    schema = validator.schema
    if not isinstance(schema, dict) or id(schema) in seen:
        return
    seen = (*seen, id(schema))
    old = "$ref" in schema and any(f"draft-0{n}" in str(validator.META_SCHEMA.get("$schema", "")) for n in (3, 4, 6, 7))
    for keyword, what in schema.items():
        if (old and keyword != "$ref") or (keyword in LATER and keyword not in validator.VALIDATORS):
            continue
        yield validator, keyword
        for chosen in _chosen(validator, keyword, what, value):
            yield from _applied(chosen, value, seen)


def _chosen(validator: Validator, keyword: str, what: Any, value: Any) -> Iterable[Validator]:
    schema = validator.schema
    if keyword in {"$ref", "$dynamicRef", "$recursiveRef"} and isinstance(what, str):
        found = validator._resolver.lookup(what)
        return [_evolve(validator, found.contents, found.resolver)]
    if keyword == "allOf":
        return [_evolve(validator, s) for s in what]
    if keyword in {"anyOf", "oneOf"}:
        satisfied = [s for s in what if _satisfies(value, _evolve(validator, s))]
        return [_evolve(validator, s) for s in satisfied[:1]]
    if keyword in {"if", "then", "else"} and "if" in schema:
        holds = _satisfies(value, _evolve(validator, schema["if"]))
        return [_evolve(validator, what)] if holds == (keyword != "else") else []
    if keyword in {"dependentSchemas", "dependencies"} and isinstance(value, dict):
        return [_evolve(validator, s) for k, s in what.items() if k in value and not isinstance(s, list)]
    return []


def _evolve(validator: Validator, schema: Any, resolver: Any = None) -> Validator:
    resolver = resolver or validator._resolver
    if isinstance(schema, dict):
        specification = specification_with(validator.META_SCHEMA.get("$schema", ""), default=DRAFT202012)
        resolver = resolver.in_subresource(specification.create_resource(schema))
    return validator.evolve(schema=schema, _resolver=resolver)


def _satisfies(value: Any, validator: Validator) -> bool:
    try:
        return bool(validator.is_valid(value))
    except RecursionError:
        return False


def _read(
    applied: tuple[Validator, str], value: dict[str, Any], order: _Order, members: dict[str, list[Validator]]
) -> None:
    validator, keyword = applied
    schema = validator.schema
    what = schema[keyword]
    if keyword == "properties":
        order.declared.update(dict.fromkeys(what))
        for name in what.keys() & value.keys():
            members[name].append(_evolve(validator, what[name]))
    elif keyword in {"const", "enum"}:
        same = [v for v in (what if keyword == "enum" else [what]) if isinstance(v, dict) and v == value]
        order.constant = order.constant or (list(same[0]) if same else None)
        for name in value if same else ():
            members[name].append(_evolve(validator, {"const": same[0][name]}))
    elif keyword == "required" and isinstance(what, list):
        order.mentioned.update(dict.fromkeys(what))
    elif keyword in {"dependentRequired", "dependentSchemas", "dependencies"}:
        for name, names in what.items():
            if isinstance(names, list):
                order.needed.update(dict.fromkeys([name, *names]))
            else:
                order.mentioned[name] = None
    elif keyword == "propertyNames":
        while isinstance(what, dict) and [*what] == ["$ref"]:
            what = validator._resolver.lookup(what["$ref"]).contents
        if isinstance(what, dict):
            order.allowed.update(dict.fromkeys(what.get("enum", ())))
    elif keyword in {"not", "if"}:
        order.declared.update(dict.fromkeys(_names(what)))
    elif keyword == "patternProperties":
        for pattern, inner in what.items():
            for name in value:
                if re.search(pattern, name):
                    members[name].append(_evolve(validator, inner))
    elif keyword in {"additionalProperties", "unevaluatedProperties"}:
        for name in value:
            declared = name in schema.get("properties", {})
            if not declared and not any(re.search(p, name) for p in schema.get("patternProperties", {})):
                members[name].append(_evolve(validator, what))


def _names(schema: Any) -> Iterator[str]:
    """Every name that a schema declares, whether it holds or not."""
    if not isinstance(schema, dict):
        return
    for keyword, what in schema.items():
        if keyword == "properties":
            yield from what
        elif keyword == "dependentSchemas":
            for inner in what.values():
                yield from _names(inner)
        elif keyword in {"allOf", "anyOf", "oneOf"}:
            for inner in what:
                yield from _names(inner)
        elif keyword in {"not", "if", "then", "else"}:
            yield from _names(what)
        elif keyword in {"const", "enum"}:
            for constant in what if keyword == "enum" else [what]:
                yield from constant if isinstance(constant, dict) else ()


def _items(value: list[Any], index: int, under: list[Validator]) -> list[Validator]:
    found = []
    for outer in under:
        for validator, keyword in _applied(outer, value):
            schema = validator.schema
            what = schema[keyword]
            prefix = schema.get("prefixItems", schema["items"] if isinstance(schema.get("items"), list) else [])
            if keyword == "prefixItems" or (keyword == "items" and isinstance(what, list)):
                found += [_evolve(validator, what[index])] if index < len(what) else []
            elif keyword in {"items", "additionalItems", "unevaluatedItems"} and index >= len(prefix):
                found.append(_evolve(validator, what))
            elif keyword in {"const", "enum"}:
                same = [v for v in (what if keyword == "enum" else [what]) if isinstance(v, list) and v == value]
                found += [_evolve(validator, {"const": v[index]}) for v in same[:1]]
    return found
