"""The schemas of Python types and pydantic models. Pydantic is imported when one is given."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.json_schema.closed_objects import closed_objects
from logitkit.parameters.documents import is_python_type


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
    adapter = _type_adapter(given)
    return _generated(given, adapter.json_schema), adapter.validate_json


def _type_adapter(given: Any) -> Any:
    try:
        from pydantic import TypeAdapter
    except ImportError:
        raise ConfigurationError(
            f"schema is the type {given!r}, whose JSON Schema pydantic writes, and pydantic is not installed; "
            "run `pip install pydantic`, or give the schema as a dict"
        ) from None

    from logitkit.json_schema.typed_dicts import supported

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
