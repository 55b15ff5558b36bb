"""The schemas of Python types and pydantic models. Pydantic is imported when one is given."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.parameters.documents import is_python_type


def schema_of(given: Any) -> Any:
    """Return the JSON Schema of a Python type, a pydantic model or a `TypeAdapter`; any other value unchanged.

    Raises:
        ConfigurationError: It has no JSON Schema, or is a plain type and pydantic is not installed.
    """
    if callable(getattr(given, "model_json_schema", None)):
        return _generated(given, given.model_json_schema)
    if not isinstance(given, type) and callable(getattr(given, "json_schema", None)):
        return _generated(given, given.json_schema)
    return _generated(given, _type_adapter(given).json_schema) if is_python_type(given) else given


def adapted(given: Any) -> tuple[Any, Callable[[str], Any]] | None:
    """Return an object that has the schema of a type, and a function that reads JSON as a value of it; None if it is not a type.

    Args:
        given: A Python type, a pydantic model or a `TypeAdapter`. One with a schema but
            without a reader gives plain values.

    Raises:
        ConfigurationError: The type has no JSON Schema, or pydantic is not installed.
    """
    if callable(getattr(given, "model_json_schema", None)):
        return given, getattr(given, "model_validate_json", json.loads)
    if not isinstance(given, type) and callable(getattr(given, "json_schema", None)):
        return given, getattr(given, "validate_json", json.loads)
    if not is_python_type(given):
        return None
    adapter = _type_adapter(given)
    return adapter, adapter.validate_json


def _type_adapter(given: Any) -> Any:
    try:
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
    except ImportError:
        raise ConfigurationError(
            f"schema is the type {given!r}, whose JSON Schema pydantic writes, and pydantic is not installed; "
            "run `pip install pydantic`, or give the schema as a dict"
        ) from None

    from logitkit.json_schema.typed_dicts import supported

    try:
        return TypeAdapter(supported(given))
    except (PydanticUserError, PydanticUndefinedAnnotation, ImportError) as error:
        raise _without_schema(given, error) from error


def _generated(given: object, method: Any) -> Any:
    """Call the method that returns a schema, with our generator if it takes one."""
    parameters = inspect.signature(method).parameters.values()
    if not any(p.name == "schema_generator" or p.kind is p.VAR_KEYWORD for p in parameters):
        return method()
    from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

    from logitkit.json_schema.validated_schema import ValidatedSchema

    try:
        return method(schema_generator=ValidatedSchema)
    # AttributeError: BaseModel itself has no schema.
    except (PydanticUserError, PydanticUndefinedAnnotation, ImportError, AttributeError) as error:
        raise _without_schema(given, error) from error


def _without_schema(given: object, error: Exception) -> ConfigurationError:
    reason = str(error).partition("\n")[0].partition(". Set `arbitrary_types_allowed")[0]
    return ConfigurationError(
        f"schema is {given!r}, which has no JSON Schema ({reason}); give a type that JSON can hold"
    )
