"""The verdict of the `jsonschema` library, with `format` asserted, patterns read as ECMA-262, and numbers exact."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

import jsonschema
from jsonschema.protocols import Validator
from jsonschema_specifications import REGISTRY as SPECIFICATIONS
from referencing import Resource
from referencing.jsonschema import specification_with

from tests.json_schema.ecma import python_pattern
from tests.json_schema.format_rules import NUMBER_RULES, RULES

ONE = {
    *("additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties"),
}
LISTS = {"allOf", "anyOf", "oneOf", "prefixItems", "items"}
NAMED = {"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"}

_FORMATS = jsonschema.FormatChecker(formats=())


def _rule(check: Callable[[str], bool]) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, str) or check(value)


def _number_rule(check: Callable[[float | Decimal], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, bool) or not isinstance(value, int | float | Decimal) or check(value)


for _name, _check in RULES.items():
    _FORMATS.checks(_name)(_rule(_check))
for _name, _number_check in NUMBER_RULES.items():
    _FORMATS.checks(_name)(_number_rule(_number_check))


def judge(schema: Any, documents: Mapping[str, Any] | None = None) -> Validator:
    """Return the validator of a schema, in the dialect that it names (else 2020-12), given other documents by URI."""
    as_judged = exact(translated(schema, nullable=not isinstance(schema, dict) or "$schema" not in schema))
    dialect = jsonschema.validators.validator_for(as_judged, default=jsonschema.Draft202012Validator)
    checker = dialect.TYPE_CHECKER.redefine("integer", _is_integer)
    validator: type[Validator] = jsonschema.validators.extend(
        dialect, {"multipleOf": _multiple_of}, type_checker=checker
    )
    if documents is None:
        return validator(as_judged, format_checker=_FORMATS)
    # A document that names no draft is read by that of the main schema.
    otherwise = specification_with(dialect.META_SCHEMA.get("$id") or dialect.META_SCHEMA["id"])
    resources = {
        uri: Resource.from_contents(exact(translated(document)), default_specification=otherwise)
        for uri, document in documents.items()
    }
    registry = SPECIFICATIONS.with_resources(resources.items()).crawl()
    return validator(as_judged, format_checker=_FORMATS, registry=registry)


def parse(text: str | bytes) -> Any:
    """Return the value of JSON text, exactly: fractions are `Decimal`, integral ones `int`.

    Raises:
        ValueError: It is not JSON, or has a lone surrogate, or an object has a name twice.
    """
    text = text.decode() if isinstance(text, bytes) else text
    return json.loads(text, parse_float=_exact_number, parse_int=_exact_number, parse_constant=_no_constant)


def exact(value: Any) -> Any:
    """Return a value with `Decimal` for its floats."""
    if isinstance(value, float):
        return _exact_number(repr(value))
    if isinstance(value, dict):
        return {k: exact(v) for k, v in value.items()}
    return [exact(v) for v in value] if isinstance(value, list) else value


def translated(schema: Any, nullable: bool = True) -> Any:
    """Return a schema whose patterns are Python's, and whose `nullable` is a type, if it is a keyword."""
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword == "pattern" and isinstance(value, str):
            found[keyword] = python_pattern(value)
        elif keyword in NAMED and isinstance(value, dict):
            pattern = python_pattern if keyword == "patternProperties" else str
            found[keyword] = {pattern(k): translated(v, nullable) for k, v in value.items()}
        elif keyword in LISTS and isinstance(value, list):
            found[keyword] = [translated(v, nullable) for v in value]
        elif keyword in ONE:
            found[keyword] = translated(value, nullable)
        else:
            found[keyword] = value
    if nullable and schema.get("nullable") is True and isinstance(schema.get("type"), str):
        found["type"] = [schema["type"], "null"]
    return found


def _exact_number(text: str) -> int | Decimal:
    if text.lstrip("-").isdigit() and len(text) < 4000:
        return int(text)
    try:
        number = Decimal(text)
    except InvalidOperation:  # such an exponent is only found where any number will do
        number = Decimal(-1 if text.startswith("-") else 1)
    # Beyond that, the integer would be written out in full.
    return int(number) if -500 < number.adjusted() < 500 and number == number.to_integral_value() else number


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _is_integer(_checker: object, value: object) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)


def _multiple_of(validator: Validator, divisor: int | Decimal, value: object, _schema: object) -> Any:
    if validator.is_type(value, "number"):
        assert isinstance(value, int | Decimal)
        if not _divides(Decimal(divisor), Decimal(value)):
            yield jsonschema.ValidationError(f"{value} is not a multiple of {divisor}")


def _divides(divisor: Decimal, number: Decimal) -> bool:
    """Whether a number is a multiple; one of a million digits is not written out."""
    (_, digits, exponent), (above, below) = number.as_tuple(), divisor.as_integer_ratio()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits))) * below
    if exponent >= 0:
        return whole * pow(10, exponent, above) % above == 0
    # A number of fewer digits than the divisor has zeros is not a multiple.
    return whole == 0 or (-exponent <= len(str(whole)) and whole % (above * 10**-exponent) == 0)
