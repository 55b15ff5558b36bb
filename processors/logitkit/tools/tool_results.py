"""Checks what a tool returned: against a Python type with pydantic, or against a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from math import isfinite
from typing import Any

from logitkit.errors import ConfigurationError, LogitkitError, PatternTooLarge, ToolResultError, UnsupportedSchema
from logitkit.json_schema.conjunction import Conjunction
from logitkit.json_schema.document import load
from logitkit.json_schema.membership import Membership
from logitkit.json_schema.pointer import names_of, plain, step
from logitkit.json_schema.python_types import schema_of, type_adapter
from logitkit.json_schema.reader import Reader
from logitkit.json_schema.references import References
from logitkit.languages.language import LANGUAGE_LIMITS
from logitkit.parameters.documents import is_python_type
from logitkit.parameters.place import shown
from logitkit.tools.member_values import reading

__all__ = ["RETURN_KEYS", "declared_result", "result_check", "with_schema_of_result"]

# The keys of a dict that may declare the results of its function: of logitkit, of transformers, of Python and of JSON in MCP.
RETURN_KEYS = ("returns", "return", "output_schema", "outputSchema")

# The work that each value or character in a result may take, in steps.
STEPS_A_VALUE = 2_000

# Results nested more deeply are refused.
DEEPEST = 200

# With more values and characters than this, it takes too long to find the keyword that refuses a result.
MOST_EXPLAINED = 20_000

LONGEST_SHOWN = 200

Check = Callable[[Any], Any]


def declared_result(tool: Mapping[Any, Any], name: str) -> Any:
    """Return the type or schema that a dict declares for the results of its tool; None: it declares none.

    Args:
        tool: The dict. A text in place of a schema only describes the results.
        name: The name of the tool, for errors.

    Raises:
        ConfigurationError: Two keys declare it.
    """
    found = [key for key in RETURN_KEYS if isinstance(tool.get(key), Mapping | bool) or _is_type(tool.get(key))]
    if len(found) > 1:
        raise ConfigurationError(
            f"the tool {name!r} declares its results twice, in {found[0]!r} and {found[1]!r}; give one of them"
        )
    return tool[found[0]] if found else None


def with_schema_of_result(tool: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Return a dict in which a type that declares results is replaced by its schema, for chat templates and configurations.

    Raises:
        ConfigurationError: The type has no JSON Schema.
    """
    key = next((key for key in RETURN_KEYS if _is_type(tool.get(key))), None)
    return tool if key is None else {**tool, key: schema_of(tool[key])}


def result_check(name: str, declared: Any) -> Check:
    """Return a function that checks a result of a tool, and returns it as the declared type.

    Args:
        name: The name of the tool, for errors.
        declared: The type, a `TypeAdapter`, or the schema; None: nothing is declared.

    Raises:
        ConfigurationError: The type has no JSON form, or the schema is not valid.
        UnsupportedSchema: The schema cannot be judged exactly.
    """
    if declared is None or declared is Any:
        return lambda value: value
    try:
        return _check_of_type(name, declared) if _is_type(declared) else _check_of_schema(name, load(declared))
    except ConfigurationError as error:
        raise ConfigurationError(f"the results of the tool {name!r} cannot be checked: {error}") from None
    except UnsupportedSchema as error:
        pointer = f"the results of the tool {name!r}{error.pointer or ''}"
        raise UnsupportedSchema(error.reason, pointer, error.keyword) from None


def _is_type(value: object) -> bool:
    has_adapter = callable(getattr(value, "validate_python", None)) and not isinstance(value, type)
    return value is not None and (is_python_type(value) or has_adapter)


def _check_of_type(name: str, declared: Any) -> Check:
    from pydantic import ValidationError
    from pydantic_core import PydanticSerializationError, to_json

    adapter = declared if callable(getattr(declared, "validate_python", None)) else type_adapter(declared)

    def check(value: Any) -> Any:
        # A value of the type itself, or else the JSON data of one: a date may be a text, but a text is not a number.
        try:
            return adapter.validate_python(value, strict=True)
        except ValidationError as error:
            refusal = error
        try:
            text = to_json(value)
        except (PydanticSerializationError, ValueError, RecursionError):
            raise _refused(name, refusal) from refusal
        try:
            return adapter.validate_json(text, strict=True)
        except ValidationError as error:
            raise _refused(name, error) from error

    return check


def _refused(name: str, error: Any) -> ToolResultError:
    """Return the error for pydantic's."""
    first, *others = error.errors(include_url=False, include_context=False)
    path = ""
    for part in first["loc"]:
        path = step(path, part)
    more = f" ({len(others)} more)" if others else ""
    return ToolResultError(f"it is {shown(first['input'])}; {first['msg']}{more}", name, path)


def _check_of_schema(name: str, schema: Any) -> Check:
    with reading():
        reader = Reader(References.of(schema), LANGUAGE_LIMITS)
        root = reader.conjunction(reader.references.resources[""])
        reader.values(root)

    def check(value: Any) -> Any:
        size = _checked_json(name, value)
        try:
            with reading(LANGUAGE_LIMITS.work + STEPS_A_VALUE * size):
                is_right = Membership(reader).satisfies(root, value)
        except (PatternTooLarge, RecursionError):
            raise ToolResultError(
                "it is too large, or nested too deeply, to be checked with its schema", name
            ) from None
        if not is_right:
            raise _explained(name, schema, value) if size <= MOST_EXPLAINED else _placed(name, reader, root, value)
        return value

    return check


def _checked_json(name: str, value: Any) -> int:
    """Refuse a value that is not JSON, and return how many values it consists of. Characters count as values."""
    todo: list[tuple[Any, str, int]] = [(value, "", 0)]
    size = 0
    for inside, path, depth in todo:
        size += 1
        if depth > DEEPEST:
            raise ToolResultError(f"it is nested more than {DEEPEST} deep", name)
        match inside:
            case dict():
                wrong = next((key for key in inside if not isinstance(key, str)), None)
                if wrong is not None:
                    raise ToolResultError(f"it has the key {shown(wrong)}; allowed are texts", name, path)
                todo.extend((member, step(path, key), depth + 1) for key, member in inside.items())
            case list():
                todo.extend((item, step(path, at), depth + 1) for at, item in enumerate(inside))
            case str():
                size += len(inside)
            case None | bool() | int():
                pass
            case float() if isfinite(inside):
                pass
            case _:
                raise ToolResultError(
                    f"it is {shown(inside)} of type {type(inside).__name__}; allowed are JSON values, as json.loads returns them",
                    name,
                    path,
                )
    return size


def _explained(name: str, schema: Any, value: Any) -> ToolResultError:
    """Return the error for a value that does not satisfy a schema, with the keyword that refuses it as far as it is known."""
    # By name: explanations stand on tools.
    faults_of = import_module("logitkit.explaining.schema_sources").SchemaFaults
    read_json = import_module("logitkit.explaining.open_json").read_json
    try:
        node = read_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))[0]
        found = faults_of(schema, "spaced").of(node)
    except (LogitkitError, RecursionError, ValueError):
        found = []
    if not found:
        return ToolResultError(f"it is {shown(value)}; expected {_json(schema)}", name)
    fault = found[0]
    while len(fault.inside) == 1 and fault.inside[0]:
        fault = fault.inside[0][0]
    for part in names_of(fault.path):
        value = value[int(part) if isinstance(value, list) else part]
    if not plain(fault.pointer):
        return ToolResultError(f"it is {shown(value)}; its schema is {_json(fault.value)}", name, fault.path)
    keyword = fault.pointer.rpartition("/")[2]
    where = f"{plain(fault.pointer)} in the schema"
    return ToolResultError(
        f"it is {shown(value)}; expected {keyword}: {_json(fault.value)} ({where})", name, fault.path
    )


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def _placed(name: str, reader: Reader, root: Conjunction, value: Any) -> ToolResultError:
    """Return the error for a large value that does not satisfy a schema, with the place of the innermost wrong value."""
    path = ""
    with suppress(LogitkitError, RecursionError), reading():
        judge = Membership(reader)
        while True:
            values = reader.values(root)
            if isinstance(value, dict) and len(values.objects) == 1:
                inside = [(key, values.objects[0].value_of(key), member) for key, member in value.items()]
            elif isinstance(value, list) and len(values.arrays) == 1:
                inside = [(at, values.arrays[0].at(at), item) for at, item in enumerate(value)]
            else:
                break
            wrong = next((part for part in inside if not judge.satisfies(part[1], part[2])), None)
            if wrong is None:
                break
            key, root, value = wrong
            path = step(path, key)
    return ToolResultError(f"it is {shown(value)}, which its schema does not allow", name, path)
