"""The schemas of numbers, narrowed to texts that pydantic's validator accepts. This module imports pydantic."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from logitkit.json_schema import type_patterns as patterns

Schema = dict[str, Any]

# Numbers are read as floats, which are exact up to here; larger ones are written with an exponent by `dump_json`.
_EXACT_DIGITS = 15
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_SIGNS = {(): "-?", (("ge", 0),): "", (("gt", 0),): r"(?!0(?:\.0*)?$)"}


class ValidatedNumbers(GenerateJsonSchema):
    """Generates the schemas of numbers."""

    def float_schema(self, schema: Any) -> Schema:
        """Return floats; where infinity is not allowed, those that are far from it."""
        found = super().float_schema(schema)
        finite = not schema.get("allow_inf_nan", self._config.allow_inf_nan)
        return _within(found, 10 ** (_EXACT_DIGITS + 1)) if finite else found

    def decimal_schema(self, schema: Any) -> Schema:
        """Return decimals as numbers and, if no bound other than 0 applies, as strings."""
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if digits is not None and places is not None:
            places = min(places, digits)
        numbers = _numbers(schema)
        if places == 0 or (digits is not None and places is None):
            numbers["type"] = "integer"
        elif places is not None:
            numbers["allOf"] = [{"multipleOf": float(f"1e-{places}")}]
        most = _EXACT_DIGITS if digits is None else min(digits, _EXACT_DIGITS)
        numbers = _within(numbers, 10 ** max(most - (places or 0), 0))
        if digits is not None and digits == places:
            numbers["not"] = {"const": 0}  # which has a digit before the point
        sign = _SIGNS.get(tuple([(name, schema[name]) for name in _BOUNDS if schema.get(name) is not None]))
        if sign is None or schema.get("multiple_of") is not None:
            return numbers
        return {"anyOf": [numbers, {"type": "string", "pattern": patterns.decimal(digits, places, sign)}]}

    def fraction_schema(self, schema: Any) -> Schema:
        """Return fractions as numbers and, if there are no bounds, as strings."""
        numbers = _numbers(schema)
        bounded = len(numbers) > 1
        numbers = _within(numbers, 10**_EXACT_DIGITS)
        return numbers if bounded else {"anyOf": [numbers, {"type": "string", "pattern": patterns.FRACTION}]}

    def complex_schema(self, schema: Any) -> Schema:
        """Return complex numbers as Python writes them."""
        return {"type": "string", "pattern": patterns.COMPLEX}


def _numbers(schema: Any) -> Schema:
    names = {**_BOUNDS, "multiple_of": "multipleOf"}
    bounds = {to: float(schema[name]) for name, to in names.items() if schema.get(name) is not None}
    return {"type": "number", **bounds}


def _within(found: Schema, bound: int) -> Schema:
    """Return numbers less than a bound and greater than its negative."""
    lower = {} if {"minimum", "exclusiveMinimum"} & found.keys() else {"exclusiveMinimum": -bound}
    upper = {} if {"maximum", "exclusiveMaximum"} & found.keys() else {"exclusiveMaximum": bound}
    return {**found, **lower, **upper}
