"""The JSON Schema of the arguments of a function, from annotations and docstring. Pydantic is imported when needed."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from typing import Annotated, Any

from logitkit.errors import ConfigurationError
from logitkit.json_schema.python_types import schema_of, supported

__all__ = ["described", "parameters_of", "without_titles"]

_SECTION = re.compile(r"^[A-Z][A-Za-z ]*:\s*$")
_ARGUMENT = re.compile(r"^(\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


def described(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description in a docstring, and those of its arguments.

    Args:
        text: The docstring, or None.

    Example:
        >>> described('''Find a city.
        ...
        ...     Args:
        ...         name: The name of the city,
        ...             in any language.
        ...         limit (int): The most results.
        ...
        ...     Returns:
        ...         The cities.
        ...     ''')
        ('Find a city.', {'name': 'The name of the city, in any language.', 'limit': 'The most results.'})
    """
    lines = inspect.cleandoc(text or "").splitlines()
    first = next((i for i, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    found: dict[str, str] = {}
    section, indent, name = "", 0, ""
    for line in lines[first:]:
        if _SECTION.match(line):
            section, indent, name = line.strip().rstrip(":"), 0, ""
            continue
        if section not in ("Args", "Arguments", "Parameters") or not line.strip():
            continue
        width = len(line) - len(line.lstrip())
        indent = indent or width
        argument = _ARGUMENT.match(line.strip()) if width <= indent else None
        if argument:
            name = argument[1].lstrip("*")
            found[name] = argument[2].strip()
        elif name:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return "\n".join(lines[:first]).strip(), found


def parameters_of(function: Callable[..., Any], name: str) -> tuple[str, dict[str, Any], Any]:
    """Return the description of a function, the schema of its arguments, and the annotation of its results, None without one.

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
        from pydantic.fields import FieldInfo
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
        hint, default = supported(hints[argument]), parameter.default
        # The names of arguments are aliases, for a model does not take all of them as fields.
        options: dict[str, Any] = dict.fromkeys(("alias", "validation_alias", "serialization_alias"), argument)
        if isinstance(default, FieldInfo):
            hint = Annotated[hint, default]
        else:
            options["default"] = ... if default is parameter.empty else default
        # That of a `Field` stays, and any description given here, even None, would replace it.
        if not any(isinstance(part, FieldInfo) and part.description for part in getattr(hint, "__metadata__", ())):
            options["description"] = about.get(argument)
        fields[f"field_{number}"] = (hint, Field(**options))
    try:
        model = create_model(
            "Arguments", __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields
        )
    except (PydanticUserError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(f"the arguments of the tool {name!r} have no JSON Schema ({reason})") from None
    try:
        schema = schema_of(model)
    except ConfigurationError as error:
        reason = str(error).replace(f"schema is {model!r}, which has", "they have")
        raise ConfigurationError(f"the arguments of the tool {name!r}: {reason}") from None
    return description, without_titles(schema), hints.get("return")


def without_titles(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without the titles that pydantic makes of names, and with the properties at its top.

    Pydantic writes a recursive type as a reference to its definition, and chat templates do not follow one.
    """
    top = schema.get("$ref", "").removeprefix("#/$defs/")
    if top in schema.get("$defs", {}):
        schema = {**schema["$defs"][top], "$defs": schema["$defs"]}
    inside = schema.get("properties", {})
    properties = {
        name: {key: value for key, value in member.items() if key != "title"} if isinstance(member, dict) else member
        for name, member in inside.items()
    }
    found = {key: value for key, value in schema.items() if key not in ("title", "description")}
    return {**found, "properties": properties}
