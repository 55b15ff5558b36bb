"""Constraints that pydantic checks after a validator. This module imports pydantic.

A union, a `Literal` or an `Enum` cannot have constraints itself. For those around it, pydantic writes keys such as `ge`, which
have no meaning in JSON Schema.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic.errors import PydanticUserError
from pydantic_core import SchemaValidator

from logitkit.json_schema.exact_bounds import BOUNDS

__all__ = ["KEYS", "OF_TEXT", "AddedConstraint", "added_constraints", "is_opaque", "merged", "refused", "without_keys"]

# The keys that pydantic writes for such constraints, which are not keywords of JSON Schema.
KEYS = {*BOUNDS, "multiple_of", "max_digits", "decimal_places"}
LENGTHS = {"minLength", "maxLength", "minItems", "maxItems"}
# The constraints on the text of a string, which pydantic checks with a second validator.
OF_TEXT = {"pattern", "strip_whitespace", "to_lower", "to_upper", "ascii_only"}

_LARGEST = {"ge", "gt", "min_length"}
_SMALLEST = {"le", "lt", "max_length", "max_digits", "decimal_places"}
_WRAPPERS = ("function-before", "function-after", "function-wrap")


def refused(reason: str) -> PydanticUserError:
    """Return the error for a constraint that cannot be enforced, which is one in a union too."""
    return PydanticUserError(reason, code=None)


@dataclass(frozen=True, eq=False)
class AddedConstraint:
    """A constraint that is checked after a validator.

    Args:
        keywords: Its names and values, as a core schema has them.
        check: Raises an error for a value that it does not allow. A value that it cannot be applied to is a `TypeError`.
    """

    keywords: Mapping[str, Any]
    check: Callable[[Any], Any]

    def __str__(self) -> str:
        return ", ".join(f"{name}={value!r}" for name, value in self.keywords.items())

    def allows(self, value: object) -> bool:
        """Whether a value is allowed.

        Raises:
            PydanticUserError: The constraint cannot be applied to the value.
        """
        # The validator of strings reads members of an `Enum` too, but its string is not the value that is constrained.
        if self.keywords.keys() <= OF_TEXT and not isinstance(value, str):
            raise self.inapplicable(repr(value))
        try:
            self.check(value)
        except TypeError:
            raise self.inapplicable(repr(value)) from None
        except ValueError:
            return False
        return True

    def inapplicable(self, what: str) -> PydanticUserError:
        """Return the error for a type of which pydantic reads values that it then cannot compare with the constraint."""
        return refused(f"{self} on a type with {what}, to which it cannot be applied; constrain the other types in it")


def added_constraints(schema: Any) -> tuple[list[AddedConstraint], Any]:
    """Return the constraints that are checked after a validator, and the core schema of the validator."""
    found: list[AddedConstraint] = []
    while own := _outermost(schema):
        constraints, schema = own
        found += constraints
    return found, schema


def _outermost(schema: Any) -> tuple[list[AddedConstraint], Any] | None:
    if schema["type"] == "function-after":
        constraint = _of_function(schema["function"]["function"])
        return None if constraint is None else ([constraint], schema["schema"])
    if schema["type"] == "chain":
        steps = list(map(_of_step, schema["steps"][1:]))
        constraints = [step for step in steps if step is not None]
        return (constraints, schema["steps"][0]) if len(constraints) == len(steps) else None
    return None


def _of_function(function: Any) -> AddedConstraint | None:
    if isinstance(function, functools.partial) and _is_pydantics(function.func) and not function.args:
        return AddedConstraint(function.keywords, function)
    if _is_pydantics(function) and function.__name__ == "forbid_inf_nan_check":
        return AddedConstraint({"allow_inf_nan": False}, function)
    return None


def _of_step(step: Any) -> AddedConstraint | None:
    """Return the constraint of the second validator of a chain, if it only checks the text of a string."""
    if step["type"] != "function-wrap" or not _is_pydantics(step["function"]["function"]):
        return None
    inner = step["schema"]
    keywords = {name: value for name, value in inner.items() if name not in ("type", "metadata")}
    if inner["type"] != "str" or not keywords.keys() <= OF_TEXT:
        raise refused(f"{', '.join(keywords)} on a type that is not str")
    return AddedConstraint(keywords, SchemaValidator(inner).validate_python)


def is_opaque(schema: Any) -> bool:
    """Whether the value of a validator is not known from its core schema: a function of pydantic, or a class, makes it.

    Functions of other packages are validators of the user's, which are taken to return the value that they check.
    """
    if schema["type"] == "enum":
        return False
    metadata = schema.get("metadata", {})
    if metadata.get("pydantic_js_functions") or metadata.get("pydantic_js_annotation_functions"):
        return True
    if "json_schema_input_schema" in schema:
        return True
    if schema["type"] in _WRAPPERS:
        function = schema["function"]["function"]
        return isinstance(function, type) or _is_pydantics(function) or is_opaque(schema["schema"])
    return schema["type"] in ("function-plain", "json")


def _is_pydantics(function: Any) -> bool:
    if isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__module__", "")).partition(".")[0] in ("pydantic", "pydantic_extra_types")


def without_keys(schema: Any) -> Any:
    """Return a core schema without the keys that pydantic writes for added constraints."""
    metadata = schema.get("metadata", {})
    updates = metadata.get("pydantic_js_updates", {})
    kept = {key: value for key, value in updates.items() if key not in KEYS | LENGTHS}
    return {**schema, "metadata": {**metadata, "pydantic_js_updates": kept}}


def merged(schema: Any, keywords: Mapping[str, Any]) -> Any:
    """Return a core schema with more constraints of its own: of two with one name, the stronger one.

    Raises:
        PydanticUserError: Neither implies the other.
    """
    found = dict(schema)
    for name, value in keywords.items():
        before = found.get(name)
        if before is None or before == value:
            found[name] = value
        elif name in _LARGEST:
            found[name] = max(before, value)
        elif name in _SMALLEST:
            found[name] = min(before, value)
        elif name == "multiple_of" and (value % before == 0 or before % value == 0):
            found[name] = max(before, value)
        else:
            raise refused(f"{name}={before!r} and {name}={value!r} together")
    return found
