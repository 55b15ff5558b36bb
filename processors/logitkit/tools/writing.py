"""Writes a turn as a model of a format does, so that what it writes is read as the same calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.parameters.place import shown
from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.formats import ToolFormat
from logitkit.tools.member_values import MemberValues
from logitkit.tools.turn import ToolCall

__all__ = ["written_calls"]


def written_calls(
    calls: Sequence[ToolCall],
    tools: Mapping[str, ToolDefinition],
    form: ToolFormat,
    values: Callable[[str], MemberValues],
) -> str:
    """Return the text of some calls.

    Raises:
        ConfigurationError: The format has no place for several calls; a tool is not known; or a string cannot be written, because
            it contains the closing marker or half of a surrogate pair, or would be read as another value; or an argument is not a
            JSON value.
    """
    if len(calls) > 1 and form.separator is None:
        raise ConfigurationError(f"there are {len(calls)} calls; the format {form.name!r} allows one in a turn")
    texts = [_call(call, tools, form, values) for call in calls]
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"the arguments contain {error.object[error.start]!r}, which UTF-8 cannot encode"
        ) from None
    return form.calls_begin + (form.separator or "").join(texts) + form.calls_end if texts else ""


def _call(
    call: ToolCall, tools: Mapping[str, ToolDefinition], form: ToolFormat, values: Callable[[str], MemberValues]
) -> str:
    if call.name not in tools:
        raise ConfigurationError(
            f"there is no tool {call.name!r}; allowed are {', '.join(map(repr, list(tools)[:20]))}"
        )
    order = list(tools[call.name].schema.get("properties", {}))
    listed = {name: call.arguments[name] for name in order if name in call.arguments}
    arguments = {**listed, **{name: value for name, value in call.arguments.items() if name not in listed}}
    if form.arguments == "json":
        text = _dumped(arguments)
    else:
        known = values(call.name)
        text = "".join(_member(name, value, form, known) for name, value in arguments.items())
    return form.call_begin + call.name + form.name_end + text + form.call_end


def _member(name: str, value: Any, form: ToolFormat, values: MemberValues) -> str:
    text = value if isinstance(value, str) else _dumped(value)
    closing = form.parameter_end.strip()
    if isinstance(value, str) and closing in text:
        raise ConfigurationError(
            f"the string {value[:80]!r} of {name!r} contains {closing!r}, which ends it in this format"
        )
    try:
        read = values.read(name, text)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    if isinstance(value, str) and not isinstance(read, str):
        raise ConfigurationError(f"the string {value!r} of {name!r} would be read as the JSON value {read!r}")
    return form.parameter_begin.replace("{name}", name) + text + form.parameter_end


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"the arguments are {shown(value)}, which is not JSON ({error}); allowed are JSON values"
        ) from None
