"""The schemas of types with constraints that pydantic checks after their validator. This module imports pydantic."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NamedTuple

from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from logitkit.json_schema.added_constraints import (
    KEYS,
    OF_TEXT,
    AddedConstraint,
    added_constraints,
    is_opaque,
    merged,
    refused,
    without_keys,
)
from logitkit.json_schema.exact_bounds import BOUNDS, EXACT_DIGITS, allows_none, float_bound, integer_bound, within
from logitkit.json_schema.validated_text import LENGTHS_OF

Schema = dict[str, Any]

_LENGTHS = {"min_length": "minLength", "max_length": "maxLength"}
_SIZES = _LENGTHS.keys()
_ITEMS = ("list", "tuple", "set", "frozenset", "deque")
_MEMBERS = ("dict", "frozendict", "ordered-dict", "counter")
_TIMES: dict[str, type[Any]] = {"date": date, "datetime": datetime, "time": time, "timedelta": timedelta}
# The constraints that Python can apply to every value of a type. An int may be too large for a float, to which others compare it.
_APPLICABLE = {
    "int": {*BOUNDS, "multiple_of"},
    "float": {*BOUNDS, "multiple_of", "allow_inf_nan"},
    "decimal": {*BOUNDS, "max_digits", "decimal_places"},
    "str": {*_SIZES, *OF_TEXT},
    **{kind: {*_SIZES} for kind in ("bytes", *_ITEMS, *_MEMBERS)},
    **dict.fromkeys(_TIMES, frozenset(BOUNDS)),
}
# The types of core schemas that stand for the one inside of them.
_INSIDE = {
    "default": "schema",
    "nullable": "schema",
    "definitions": "schema",
    "custom-error": "schema",
    "function-before": "schema",
    "function-after": "schema",
    "function-wrap": "schema",
    "json-or-python": "json_schema",
    "lax-or-strict": "lax_schema",
}


class _Choice(NamedTuple):
    """A part of a union.

    Args:
        meanings: For each type in JSON, a name of the values that the part reads. A constraint has one meaning for a name.
        schema: The texts of it that the constraints allow; None if there are none.
    """

    meanings: dict[str, str]
    schema: Schema | None


class ValidatedConstraints(GenerateJsonSchema):
    """Generates the schemas of types with added constraints: each part of a union gets them as its own."""

    # The core schemas that others refer to, by name.
    _definitions: Mapping[str, Any] = MappingProxyType({})

    def definitions_schema(self, schema: Any) -> Schema:
        """Remember the definitions, to which the keys of a dict, or the parts of a union, may refer."""
        self._definitions = {**self._definitions, **{found["ref"]: found for found in schema["definitions"]}}
        return super().definitions_schema(schema)

    def generate_inner(self, schema: Any) -> Schema:
        """Leave out what pydantic says about constraints that are enforced."""
        enforced = self._added(schema) is not None
        found: Schema = super().generate_inner(without_keys(schema) if enforced else schema)
        return found

    def function_after_schema(self, schema: Any) -> Schema:
        """Return the values that a constraint of pydantic allows."""
        if found := self._added(schema):
            return self._constrained(*found)
        inner: Schema = super().function_after_schema(schema)
        constraints, _ = added_constraints(schema)
        # Lengths are read when the schema is complete; pydantic writes those of the last constraint.
        return {**inner, LENGTHS_OF: _lengths(constraints, inner.get(LENGTHS_OF, {}))} if constraints else inner

    def union_schema(self, schema: Any) -> Schema:
        """Bound ints beside other numbers with bounds, since in JSON Schema, `1.0` is one of the integers; refuse strict ones."""
        strict = getattr(self._config, "strict", False)
        parts = list(_parts(schema))
        ints = [part for part, _ in parts if part["type"] == "int"]
        has_others = any(
            part["type"] in ("float", "decimal") and (is_constrained or part.keys() & KEYS)
            for part, is_constrained in parts
        )
        if has_others and any(part.get("strict", strict) for part in ints):
            raise refused("a strict int in a union with other numbers that have bounds")
        found: Schema = super().union_schema(schema)
        return _with_small_integers(found) if has_others and ints else found

    def chain_schema(self, schema: Any) -> Schema:
        """Return the values that constraints on text allow; refuse a value that must be of a second type too."""
        if added := self._added(schema):
            return self._constrained(*added)
        if constraints := added_constraints(schema)[0]:
            raise _meaningless(constraints[0])
        for step in schema["steps"][1:]:
            if not step["type"].startswith("function-"):
                reason = f"a value that must also be of {step.get('cls', step['type'])!r}"
                self.handle_invalid_for_json_schema(schema, reason)
        found: Schema = super().chain_schema(schema)
        return found

    def _added(self, schema: Any) -> tuple[list[AddedConstraint], Any] | None:
        """Return the constraints around a type, and the type, if they are enforced here."""
        constraints, inner = added_constraints(schema)
        return (constraints, inner) if constraints and not is_opaque(inner) else None

    def _constrained(self, constraints: list[AddedConstraint], schema: Any) -> Schema:
        choices = list(self._choices(constraints, schema, frozenset()))
        named = " and ".join(map(str, constraints))
        meanings: dict[str, str] = {}
        for kind, meaning in (pair for choice in choices for pair in choice.meanings.items()):
            # It is not known as which of them pydantic reads a text.
            if meanings.setdefault(kind, meaning) != meaning:
                several = f"{meanings[kind]} and {meaning}, which are of one type in JSON, {kind}"
                raise refused(f"{named} on a union of {several}; constrain the types in it")
        found = [choice.schema for choice in choices if choice.schema is not None]
        if not found:
            raise refused(f"{named} on a type of which it allows no value")
        return found[0] if len(found) == 1 else {"anyOf": found}

    def _choices(self, constraints: list[AddedConstraint], schema: Any, seen: frozenset[str]) -> Iterator[_Choice]:
        """Yield the parts of a union, with the constraints."""
        kind, (more, inner) = schema["type"], added_constraints(schema)
        if is_opaque(inner):
            yield self._opaque(constraints, schema)
        elif more:
            yield from self._choices([*more, *constraints], inner, seen)
        elif kind == "union":
            for choice in schema["choices"]:
                yield from self._choices(constraints, choice[0] if isinstance(choice, tuple) else choice, seen)
        elif kind == "definition-ref" and schema["schema_ref"] in self._definitions:
            name = schema["schema_ref"]
            yield from self._choices(constraints, self._definitions[name], seen | {name}) if name not in seen else ()
        elif kind in _INSIDE:
            yield from self._choices(constraints, schema[_INSIDE[kind]], seen)
        else:
            yield self._leaf(constraints, schema)

    def _opaque(self, constraints: list[AddedConstraint], schema: Any) -> _Choice:
        """Return a type that stands for text, and the lengths that are read when the schema is complete."""
        found = self.generate_inner(schema)
        lengths = _lengths(constraints, found.get(LENGTHS_OF, {}))
        return _Choice({"string": f"the texts of {found}"}, {**found, LENGTHS_OF: lengths})

    def _leaf(self, constraints: list[AddedConstraint], schema: Any) -> _Choice:
        """Return the values of a type that is not a union."""
        kind = schema["type"]
        if kind in ("literal", "enum", "bool"):
            return self._listed(constraints, schema)
        for constraint in constraints:
            for name, value in constraint.keywords.items():
                if name not in _APPLICABLE.get(kind, ()) or not _is_comparable(schema, name, value):
                    raise constraint.inapplicable(kind)
        keywords = [keyword for constraint in constraints for keyword in constraint.keywords.items()]
        if kind == "decimal":
            # A bound such as 0.1 is less than the decimal or greater than the float that a text stands for.
            own = any(name not in BOUNDS or not _is_exact(value) for name, value in keywords)
            return _Choice({"number": kind if own else "numbers", "string": kind}, self._number(keywords, schema))
        if kind in ("int", "float"):
            return _Choice({"number": "numbers"}, self._number(keywords, schema))
        if kind in _ITEMS:
            # Equal members of a set count once.
            own = kind in ("set", "frozenset") and any(name == "min_length" and value > 1 for name, value in keywords)
            return _Choice({"array": kind if own else "list"}, self._own(keywords, schema))
        if kind in _MEMBERS:
            return _Choice({"object": "dict"}, self._own(keywords, schema))
        return _Choice({"string": kind}, self._text(keywords, schema) if kind == "str" else self._own(keywords, schema))

    def _own(self, keywords: list[tuple[str, Any]], schema: Any) -> Schema:
        """Return the values of a type with constraints of its own."""
        for name, value in keywords:
            schema = merged(schema, {name: value})
        return self.generate_inner(schema)

    def _listed(self, constraints: list[AddedConstraint], schema: Any) -> _Choice:
        """Return the values among a few that the constraints allow, by asking them."""
        kind = schema["type"]
        key = {"enum": "members", "literal": "expected"}.get(kind)
        values = [False, True] if key is None else schema[key]
        meanings = {}
        for value in values:
            plain = value.value if isinstance(value, Enum) else value
            name, meaning = _in_json(plain)
            meanings[name] = meaning if isinstance(value, type(plain)) else "an Enum"
        allowed = [value for value in values if all(constraint.allows(value) for constraint in constraints)]
        if not allowed:
            return _Choice(meanings, None)
        if key is None:
            return _Choice(meanings, {"enum": allowed})
        return _Choice(meanings, getattr(self, f"{kind}_schema")({**schema, key: allowed}))

    def _text(self, keywords: list[tuple[str, Any]], schema: Any) -> Schema:
        found = self._own([(name, value) for name, value in keywords if name != "pattern"], schema)
        patterns = [self.str_schema({"type": "str", "pattern": value}) for name, value in keywords if name == "pattern"]
        return {"allOf": [found, *patterns]} if patterns else found

    def _number(self, keywords: list[tuple[str, Any]], schema: Any) -> Schema | None:
        kind = schema["type"]
        for name, value in keywords:
            if name not in BOUNDS:
                schema = merged(schema, {name: value})
            elif allows_none(name, value):
                return None
            else:
                schema = merged(schema, _own_bound(kind, name, value))
        return self.generate_inner(schema)


def _parts(schema: Any) -> Iterator[tuple[Any, bool]]:
    """Yield the parts of a union that are not unions, and whether they have added constraints."""
    constraints, inner = added_constraints(schema)
    if inner["type"] in ("nullable", "default"):
        yield from _parts(inner["schema"])
    elif inner["type"] == "union":
        for choice in inner["choices"]:
            for part, is_constrained in _parts(choice[0] if isinstance(choice, tuple) else choice):
                yield part, is_constrained or bool(constraints)
    else:
        yield inner, bool(constraints)


def _with_small_integers(schema: Schema) -> Schema:
    """Bound the integers of a union by what a float holds exactly: pydantic reads no greater one that is written with a point."""
    if "anyOf" in schema:
        return {**schema, "anyOf": list(map(_with_small_integers, schema["anyOf"]))}
    return within(schema, 10**EXACT_DIGITS) if schema.get("type") == "integer" else schema


def _meaningless(constraint: AddedConstraint) -> PydanticUserError:
    return refused(f"{constraint} on a type for which it has no meaning in JSON")


def _lengths(constraints: list[AddedConstraint], others: Schema) -> Schema:
    """Return the keywords for constraints on the length of a text, together with others."""
    found = dict(others)
    for constraint in constraints:
        for name, value in constraint.keywords.items():
            if name not in _LENGTHS:
                raise _meaningless(constraint)
            stronger, keyword = max if name == "min_length" else min, _LENGTHS[name]
            found[keyword] = stronger(found.get(keyword, value), value)
    return found


def _in_json(value: object) -> tuple[str, str]:
    """Return the type of a value in JSON, and a name for it."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return (type(value).__name__,) * 2
    return ("string", "str") if isinstance(value, str) else ("number", "numbers")


def _is_comparable(schema: Any, name: str, value: Any) -> bool:
    """Whether every value of a type may be compared with the value of a constraint, as Python does it."""
    kind = schema["type"]
    if name == "multiple_of":
        return isinstance(value, int)
    if name not in BOUNDS:
        return True
    if kind not in _TIMES:
        return isinstance(value, int | float | Decimal)
    # A datetime is a date too, but they cannot be compared, and neither can times with an offset and without one.
    if type(value) is not _TIMES[kind]:
        return False
    zone = "aware" if kind in ("time", "datetime") and value.utcoffset() is not None else "naive"
    return kind in ("date", "timedelta") or schema.get("tz_constraint") == zone


def _is_exact(bound: Any) -> bool:
    """Whether a bound is a float whose text is exactly its value."""
    return not math.isfinite(bound) or Fraction(repr(float(bound))) == Fraction(float(bound)) == Fraction(bound)


def _own_bound(kind: str, name: str, value: Any) -> dict[str, Any]:
    """Return a bound as a type has it itself, for one that Python compares exactly with the value."""
    if kind == "decimal":
        return {name: Fraction(value)}
    found = (integer_bound if kind == "int" else float_bound)(name, value)
    return {{"minimum": "ge", "maximum": "le"}[keyword]: bound for keyword, bound in found.items()}
