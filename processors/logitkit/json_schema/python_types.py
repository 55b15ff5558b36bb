"""The schemas of Python types and pydantic models. Pydantic is imported when one is given."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typing_extensions

from logitkit.errors import ConfigurationError
from logitkit.json_schema.subschemas import replaced
from logitkit.parameters.documents import is_python_type

__all__ = ["closed_objects"]

# The keywords of schemas that pydantic writes whose values are schemas, or hold them.
HOLDERS = {"$defs", "properties", "patternProperties", "items", "prefixItems", "anyOf", "oneOf", "additionalProperties"}
# Beside these, other members may be described elsewhere.
COMPOSED = {"additionalProperties", "patternProperties", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "$ref"}


def closed_objects(schema: Any) -> Any:
    """Return a schema in which objects have no other members than those that they name, unless the schema says otherwise.

    A model, a dataclass or a typed dict drops the other members that it reads, so the value stays the same.

    Args:
        schema: The schema of a type, as plain values.

    Example:
        >>> closed_objects({"type": "object", "properties": {"n": {"type": "integer"}}})["additionalProperties"]
        False
    """
    if not isinstance(schema, dict):
        return schema
    found = replaced(schema, closed_objects, HOLDERS)
    return found if "properties" not in found or COMPOSED & found.keys() else {**found, "additionalProperties": False}


def supported(given: Any) -> Any:
    """Return a type that pydantic reads and whose JSON has the same form.

    A dataclass with typed dicts becomes a typed dict, too. Those in other classes, such as named tuples, are not replaced.
    """
    if sys.version_info >= (3, 12):
        return given
    try:
        return _replaced(given, {})
    except NameError:  # a class inside a function, whose names pydantic may find
        return given


def _replaced(given: Any, known: dict[Any, Any]) -> Any:
    if typing.is_typeddict(given):
        required = given.__required_keys__
        return _typed_dict(given, [(name, name in required) for name in given.__annotations__], known)
    if _is_dataclass(given) and _needs_replacing(given, set()):
        none = dataclasses.MISSING
        fields = [
            (f.name, f.default is none and f.default_factory is none) for f in dataclasses.fields(given) if f.init
        ]
        return _typed_dict(given, fields, known)
    arguments = typing.get_args(given)
    changed = tuple([_replaced(argument, known) for argument in arguments])
    if changed == arguments:
        return given
    if isinstance(given, types.UnionType):
        return functools.reduce(operator.or_, changed)
    if isinstance(given, types.GenericAlias):
        origin: Any = given.__origin__
        return types.GenericAlias(origin, changed)
    return given.copy_with(changed[: len(given.__args__)])


def _is_dataclass(given: Any) -> bool:
    return isinstance(given, type) and dataclasses.is_dataclass(given) and not hasattr(given, "__pydantic_fields__")


def _needs_replacing(given: Any, seen: set[Any]) -> bool:
    """Whether a typed dict is found in a type, or in the dataclasses in it."""
    if typing.is_typeddict(given):
        return True
    inside = typing.get_args(given)
    if _is_dataclass(given) and given not in seen:
        seen.add(given)
        inside = tuple(typing.get_type_hints(given).values())
    return any(_needs_replacing(part, seen) for part in inside)


def _typed_dict(given: Any, members: list[tuple[str, bool]], known: dict[Any, Any]) -> Any:
    """Return a typed dict with the members of a class, of which those marked true are required."""
    if given not in known:
        made: Any = typing_extensions.TypedDict(given.__name__, {})  # type: ignore[misc]  # the name is not that of a variable
        # Known before its members are, which may be of the same type.
        known[given] = made
        made.__module__, made.__doc__ = given.__module__, given.__doc__
        hints = typing.get_type_hints(given, include_extras=True)
        made.__annotations__ = {name: _member(hints[name], required, known) for name, required in members}
        for name in {"__pydantic_config__"} & vars(given).keys():
            setattr(made, name, getattr(given, name))
    return known[given]


def _member(hint: Any, required: bool, known: dict[Any, Any]) -> Any:
    """Return the annotation of a member; `required` holds if the hint does not say."""
    qualifier = typing.get_origin(hint)
    if qualifier in (typing.Required, typing.NotRequired):
        return qualifier[_replaced(typing.get_args(hint)[0], known)]
    return (typing.Required if required else typing.NotRequired)[_replaced(hint, known)]


def schema_of(given: Any) -> Any:
    """Return the JSON Schema of a Python type, a pydantic model or a `TypeAdapter`; any other value unchanged.

    Raises:
        ConfigurationError: It has no JSON Schema, or is a plain type and pydantic is not installed.
    """
    found = typed_schema(given)
    return given if found is None else found[0]


def typed_schema(given: Any) -> tuple[Any, Callable[[str], Any]] | None:
    """Return the JSON Schema of a type, and a function that reads JSON as a value of it; None if it is not a type.

    Objects have no other members than those of the type, unless the type keeps them.

    Args:
        given: A Python type, a pydantic model or a `TypeAdapter`. One with a schema but without a reader gives plain values.

    Raises:
        ConfigurationError: The type has no JSON Schema, or pydantic is not installed.
    """
    # An annotated type has the attributes of the type inside, and its own constraints.
    has_own = isinstance(given, type) or not is_python_type(given)
    if has_own and callable(getattr(given, "model_json_schema", None)):
        return _generated(given, given.model_json_schema), getattr(given, "model_validate_json", json.loads)
    if has_own and not isinstance(given, type) and callable(getattr(given, "json_schema", None)):
        return _generated(given, given.json_schema), getattr(given, "validate_json", json.loads)
    if not is_python_type(given):
        return None
    adapter = type_adapter(given)
    return _generated(given, adapter.json_schema), adapter.validate_json


def type_adapter(given: Any) -> Any:
    """Return pydantic's adapter of a Python type.

    Raises:
        ConfigurationError: Pydantic cannot read the type, or is not installed.
    """
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise ConfigurationError(
            f"schema is the type {given!r}, whose JSON Schema pydantic writes, and pydantic is not installed; "
            "run `pip install pydantic`, or give the schema as a dict"
        ) from None

    from logitkit.json_schema.python_types import supported

    with _json_types_only(given):
        return TypeAdapter(supported(given))


def _generated(given: object, method: Any) -> Any:
    """Call the method that returns a schema, with our generator if it takes one."""
    parameters = inspect.signature(method).parameters.values()
    if not any(p.name == "schema_generator" or p.kind is p.VAR_KEYWORD for p in parameters):
        return closed_objects(method())

    from logitkit.json_schema.validated_schema import ValidatedSchema

    with _json_types_only(given):
        return closed_objects(method(schema_generator=ValidatedSchema))


@contextmanager
def _json_types_only(given: object) -> Iterator[None]:
    """Turn pydantic's errors for a type into one that says that the type has no JSON Schema."""
    from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
    from pydantic_core import SchemaError

    # AttributeError: BaseModel itself has no schema. RuntimeError: a constraint does not fit its type.
    mistakes = (PydanticUserError, PydanticUndefinedAnnotation, ImportError, AttributeError, RuntimeError)
    try:
        yield
    except (*mistakes, SchemaError) as error:
        reason = str(error).partition("\n")[0].partition(". Set `arbitrary_types_allowed")[0]
        if isinstance(error, SchemaError):
            # Such as a pattern that the Rust engine does not take: the first line does not say why.
            reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"schema is {given!r}, which has no JSON Schema ({reason}); give a type that JSON can hold"
        ) from error
