"""The JSON Schema of the arguments of a function, from annotations and docstring. Pydantic is imported when needed."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.json_schema.python_types import schema_of
from logitkit.json_schema.typed_dicts import supported
from logitkit.tools.docstrings import described

__all__ = ["parameters_of", "without_titles"]


def parameters_of(function: Callable[..., Any], name: str) -> tuple[str, dict[str, Any]]:
    """Return the description of a function, and the schema of its arguments.

    Args:
        function: The function. All of its arguments have annotations and can be given by name.
        name: Its name, for errors.

    Raises:
        ConfigurationError: An argument cannot be given by name, or has no annotation that pydantic can read.
    """
    description, about = described(inspect.getdoc(function))
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"the arguments of the tool {name!r} cannot be read ({error}); give a function with annotations, or a dict"
        ) from None
    fields: dict[str, Any] = {}
    try:
        from pydantic import ConfigDict, Field, create_model
        from pydantic.errors import PydanticUserError
    except ImportError:
        raise ConfigurationError(
            f"the tool {name!r} is a function, whose JSON Schema pydantic writes, and pydantic is not installed; run "
            "`pip install pydantic`, or give the tool as a dict"
        ) from None
    for number, (argument, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigurationError(
                f"the argument {argument!r} of the tool {name!r} is {parameter.kind.description}; "
                "allowed are arguments that can be given by name"
            )
        if argument not in hints:
            raise ConfigurationError(
                f"the argument {argument!r} of the tool {name!r} has no annotation; add one, such as `{argument}: str`"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        # The names of arguments are aliases, for a model does not take all of them as fields.
        options: dict[str, Any] = {"alias": argument, "description": about.get(argument)}
        fields[f"field_{number}"] = (supported(hints[argument]), Field(default, **options))
    try:
        model = create_model(
            "Arguments", __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields
        )
    except (PydanticUserError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(f"the arguments of the tool {name!r} have no JSON Schema ({reason})") from None
    return description, without_titles(schema_of(model))


def without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the titles that pydantic makes of names."""
    inside = schema.get("properties", {})
    properties = {
        name: {key: value for key, value in member.items() if key != "title"} if isinstance(member, dict) else member
        for name, member in inside.items()
    }
    found = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return {**found, "properties": properties}
