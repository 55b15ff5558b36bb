"""The schemas of numbers, narrowed to texts that pydantic's validator accepts. This module imports pydantic."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pydantic.json_schema import GenerateJsonSchema

from logitkit.json_schema import type_patterns as patterns
from logitkit.json_schema.exact_bounds import (
    BOUNDS,
    EXACT_DIGITS,
    Number,
    allows_none,
    decimal_bound,
    float_bound,
    largest_multiple,
    within,
)

Schema = dict[str, Any]

# Nothing satisfies it.
NO_NUMBER: Schema = {"type": "number", "minimum": 1, "maximum": 0}
_SIGNS = {(): "-?", (("ge", 0),): "", (("gt", 0),): r"(?!0(?:\.0*)?$)"}


class ValidatedNumbers(GenerateJsonSchema):
    """Generates the schemas of numbers."""

    def float_schema(self, schema: Any) -> Schema:
        """Return floats; where infinity is not allowed, those that are far from it."""
        schema = {**schema, **_nearest_bounds(schema)}
        step, finite = schema.get("multiple_of"), not schema.get("allow_inf_nan", self._config.allow_inf_nan)
        if step is not None:
            most = largest_multiple(float(step))
            schema = {**schema, "ge": max(schema.get("ge", -most), -most), "le": min(schema.get("le", most), most)}
        found = _numbers(schema, float_bound)
        return within(found, 10 ** (EXACT_DIGITS + 1)) if finite else found

    def decimal_schema(self, schema: Any) -> Schema:
        """Return decimals as numbers and, if no bound other than 0 applies, as strings."""
        digits, places = schema.get("max_digits"), schema.get("decimal_places")
        if digits is not None and places is not None:
            places = min(places, digits)
        numbers = _numbers(schema, _decimal_bound)
        if places == 0 or (digits is not None and places is None):
            numbers["type"] = "integer"
        elif places is not None:
            numbers["allOf"] = [{"multipleOf": float(f"1e-{places}")}]
        most = EXACT_DIGITS if digits is None else min(digits, EXACT_DIGITS)
        after = max(places or 0, _places(schema.get("multiple_of")))
        numbers = within(numbers, 10 ** max(most - after, 0))
        if digits is not None and digits == places:
            numbers["not"] = {"const": 0}  # which has a digit before the point
        sign = _SIGNS.get(tuple([(name, schema[name]) for name in BOUNDS if schema.get(name) is not None]))
        if sign is None or schema.get("multiple_of") is not None:
            return numbers
        return {"anyOf": [numbers, {"type": "string", "pattern": patterns.decimal(digits, places, sign)}]}

    def fraction_schema(self, schema: Any) -> Schema:
        """Return fractions as numbers and, if there are no bounds, as strings."""
        numbers = _numbers(schema, float_bound)
        bounded = len(numbers) > 1
        numbers = within(numbers, 10**EXACT_DIGITS)
        return numbers if bounded else {"anyOf": [numbers, {"type": "string", "pattern": patterns.FRACTION}]}

    def complex_schema(self, schema: Any) -> Schema:
        """Return complex numbers as Python writes them."""
        return {"type": "string", "pattern": patterns.COMPLEX}


def _numbers(schema: Any, bound: Callable[[str, Number], dict[str, int | float]]) -> Schema:
    """Return numbers within the bounds of a type, given how a bound is written."""
    lower, upper = [], []
    for name in BOUNDS:
        value = schema.get(name)
        if value is not None and allows_none(name, value):
            return dict(NO_NUMBER)
        found = {} if value is None else bound(name, value)
        lower += [found["minimum"]] if "minimum" in found else []
        upper += [found["maximum"]] if "maximum" in found else []
    if any(map(math.isinf, (*lower, *upper))):
        return dict(NO_NUMBER)
    multiple = schema.get("multiple_of")
    return {
        "type": "number",
        **({"minimum": max(lower)} if lower else {}),
        **({"maximum": min(upper)} if upper else {}),
        **({} if multiple is None else {"multipleOf": multiple if isinstance(multiple, int) else float(multiple)}),
    }


def _nearest_bounds(schema: Any) -> Schema:
    """Return the bounds of floats as the floats that are nearest: the validator compares with these."""
    return {name: _nearest(schema[name]) for name in BOUNDS if schema.get(name) is not None}


def _nearest(bound: Number) -> Number:
    try:
        return float(bound)
    except OverflowError:
        # An integer beyond all floats has no nearest one.
        return bound


def _decimal_bound(name: str, value: Number) -> Schema:
    # The validator reads a bound as it is written.
    return decimal_bound(name, Fraction(repr(value)) if isinstance(value, float) and math.isfinite(value) else value)


def _places(multiple: Number | None) -> int:
    """Return how many digits multiples of a number may have after the point."""
    exponent = Decimal(str(multiple or 1)).as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0
