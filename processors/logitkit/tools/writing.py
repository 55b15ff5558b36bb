"""Writes a turn as a model of a format does, so that what it writes is read as the same calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from logitkit.errors import ConfigurationError, LogitkitError
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
        ConfigurationError: The format has no place for several calls; a tool is not known; a name or a value cannot be written,
            because it contains a marker or half of a surrogate pair, or would be read as another value; or the arguments are not
            a dict of JSON values.
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
    if not isinstance(call.arguments, Mapping):
        raise ConfigurationError(
            f"the arguments of {call.name!r} are {shown(call.arguments)}, which is not a dict of names and values"
        )
    arguments = json.loads(_dumped(dict(call.arguments)))
    if form.arguments == "json":
        # If the schema cannot be read, the order does not matter, since no constraint has this schema.
        with suppress(LogitkitError):
            arguments = values(call.name).in_order(arguments)
        text = _dumped(arguments)
    else:
        known = values(call.name)
        text = _members(known.in_order(arguments), form, known)
    return form.call_begin + call.name + form.name_end + text + form.call_end


def _members(arguments: dict[str, Any], form: ToolFormat, values: MemberValues) -> str:
    texts = {name: value if isinstance(value, str) else _dumped(value) for name, value in arguments.items()}
    closing, after_name = form.parameter_ends.marker, form.parameter_begin.partition("{name}")[2]
    for name, value in arguments.items():
        if not name or after_name[0] in name:
            raise ConfigurationError(
                f"the name {name!r} cannot be written: it is empty, or contains {after_name[0]!r}, which ends it in this format"
            )
        if closing in texts[name] and (values.may_be_string(name) or not isinstance(value, dict | list)):
            raise ConfigurationError(
                f"the {_kind(value)} {texts[name][:80]!r} of {name!r} contains {closing!r}, which ends it in this format"
            )
    try:
        read = values.read(texts)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    for name, value in arguments.items():
        if _dumped(read[name]) != _dumped(value):
            raise ConfigurationError(
                f"the {_kind(value)} {shown(value)} of {name!r} would be read as the {_kind(read[name])} {shown(read[name])}"
            )
    return "".join(
        form.parameter_begin.replace("{name}", name) + text + form.parameter_ends.after(text)
        for name, text in texts.items()
    )


def _kind(value: Any) -> str:
    return "string" if isinstance(value, str) else "JSON value"


def _dumped(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"the arguments are {shown(value)}, which is not JSON ({error}); allowed are JSON values"
        ) from None
