"""Writes a turn as a model of a format does, so that what it writes is read as the same calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from logitkit.errors import ConfigurationError, LogitkitError
from logitkit.json_schema.delimited_strings import ends_bare_names, is_bare_name
from logitkit.languages.cdata import SECTION_BEGIN, SECTION_END, in_section
from logitkit.languages.keyword_arguments import Delimited
from logitkit.languages.raw_strings import names_matching
from logitkit.parameters.place import shown
from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.delimited_values import text_of_delimited
from logitkit.tools.formats import ToolFormat, check_texts
from logitkit.tools.formats.call_ids import ID, NUMBER, pieces_of, written_piece
from logitkit.tools.json_values import python_of_value, text_of_value
from logitkit.tools.member_values import MemberValues, member_text
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
    texts = [_call(call, number, tools, form, values) for number, call in enumerate(calls)]
    return form.calls_begin + (form.separator or "").join(texts) + form.calls_end if texts else ""


def _call(
    call: ToolCall,
    number: int,
    tools: Mapping[str, ToolDefinition],
    form: ToolFormat,
    values: Callable[[str], MemberValues],
) -> str:
    if call.name not in tools:
        raise ConfigurationError(
            f"there is no tool {call.name!r}; allowed are {', '.join(map(repr, list(tools)[:20]))}"
        )
    if not isinstance(call.arguments, Mapping):
        raise ConfigurationError(
            f"the arguments of {call.name!r} are {shown(call.arguments)}, which is not a dict of names and values"
        )
    plain = _dumped(dict(call.arguments))
    try:
        plain.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            f"the arguments contain {error.object[error.start]!r}, which UTF-8 cannot encode"
        ) from None
    arguments = json.loads(plain)
    check_texts(call.name, arguments, form)
    if form.arguments.startswith("json"):
        # If the schema cannot be read, the order does not matter, since no constraint has this schema.
        with suppress(LogitkitError):
            arguments = values(call.name).in_order(arguments, form.member_order)
        inside = _dumped(arguments, form)
        text = inside if form.arguments == "json" else _dumped(inside)
    elif form.arguments == "python":
        text = _keywords(values(call.name).in_order(arguments, form.member_order), form)
    else:
        known = values(call.name)
        text = _members(known.in_order(arguments, form.member_order), form, known)

    def marker(given: str) -> str:
        return "".join(
            written_piece(piece, number, call.id, form.id_length) if piece in (ID, NUMBER) else piece
            for piece in pieces_of(given)
        )

    head = marker(form.call_begin) + marker(form.named(call.name, form.name_end))
    return head + text + marker(form.call_end)


def _members(arguments: dict[str, Any], form: ToolFormat, values: MemberValues) -> str:
    texts = {
        name: in_section(value, form.cdata)
        if isinstance(value, str)
        else text_of_value(value, form.literals, form.string_spelling, compact=form.whitespace == "compact")
        for name, value in arguments.items()
    }
    closing, after_name = form.parameter_ends.marker, form.parameter_begin.partition("{name}")[2]
    for name, value in arguments.items():
        if not name or after_name[0] in name:
            raise ConfigurationError(
                f"the name {name!r} cannot be written: it is empty, or contains {after_name[0]!r}, which ends it in this format"
            )
        if form.parameter_begin.startswith("{name}") and form.call_end and name.startswith(form.call_end):
            raise ConfigurationError(
                f"the name {name!r} cannot be written: it begins with {form.call_end!r}, which ends a call"
            )
        if form.cdata:
            _check_sections(name, value, texts[name], form, values)
            if texts[name] != value and isinstance(value, str):
                continue
        may_be_text = values.may_be_string(name) if form.kinds is None else isinstance(value, str)
        if closing in texts[name] and (may_be_text or not isinstance(value, dict | list)):
            raise ConfigurationError(
                f"the {_kind(value)} {texts[name][:80]!r} of {name!r} contains {closing!r}, which ends it in this format"
            )
    if form.kinds is None:
        _check_readable(arguments, texts, form, values)
    members = [
        _begin(name, arguments[name], form) + text + form.parameter_ends.after(text) for name, text in texts.items()
    ]
    return form.parameter_separator.join(members)


def _check_sections(name: str, value: Any, text: str, form: ToolFormat, values: MemberValues) -> None:
    """Refuse a value that cannot be written in a format with CDATA sections."""
    problem = ""
    if not isinstance(value, str):
        wrapped = next((one for one in form.cdata if one in text), None)
        if wrapped is not None and form.kinds is None and values.takes_any_text(name):
            problem = f"contains {wrapped!r}, which only strings may contain here, as {name!r} may be any string"
    elif text != value and SECTION_END in value:
        problem = f"contains {SECTION_END!r}, which ends its CDATA section in this format"
    elif text == value and value.startswith(SECTION_BEGIN):
        problem = f"begins with {SECTION_BEGIN!r}, which begins a CDATA section in this format"
    if problem:
        raise ConfigurationError(f"the {_kind(value)} {text[:80]!r} of {name!r} {problem}")


def _keywords(arguments: dict[str, Any], form: ToolFormat) -> str:
    if form.delimited is not None:
        return _delimited(arguments, form, form.delimited)
    for name in arguments:
        if not name.isascii() or not name.isidentifier():
            raise ConfigurationError(f"the name {name!r} cannot be written: it is not a name of Python")
    is_python, compact = form.literals == "python", form.whitespace == "compact"
    return form.parameter_separator.join(
        form.parameter_begin.replace("{name}", name)
        + (python_of_value(value, form.string_spelling, compact=compact) if is_python else _dumped(value, form))
        for name, value in arguments.items()
    )


def _delimited(arguments: dict[str, Any], form: ToolFormat, delimited: Delimited) -> str:
    bare_arguments = delimited.bare_names and ends_bare_names(form.parameter_begin.partition("{name}")[2])
    pattern = delimited.names if delimited.bare_names else None
    for name in () if bare_arguments else arguments:
        if not name.isascii() or not name.isidentifier() or not _is_allowed(name, pattern):
            raise ConfigurationError(f"the name {name!r} cannot be written: it is not a name of Python")
    for name in _names_inside(arguments if bare_arguments else [*arguments.values()]) if delimited.bare_names else ():
        if not is_bare_name(name) or not _is_allowed(name, pattern):
            raise ConfigurationError(f"the name {name!r} cannot be written: it cannot stand without quotes")
    own = delimited.delimiter, delimited.bare_names, form.literals, form.whitespace == "compact"
    return form.parameter_separator.join(
        form.parameter_begin.replace("{name}", name) + text_of_delimited(value, *own)
        for name, value in arguments.items()
    )


def _is_allowed(name: str, pattern: str | None) -> bool:
    return pattern is None or names_matching(pattern).contains(name)


def _names_inside(value: Any) -> Iterator[str]:
    """Yield the names of all members in a value."""
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, dict):
            yield from item
            todo += item.values()
        elif isinstance(item, list):
            todo += item


def _begin(name: str, value: Any, form: ToolFormat) -> str:
    begin = form.parameter_begin.replace("{name}", name)
    return begin if form.kinds is None else begin.replace("{kind}", form.kind_of(value))


def _check_readable(arguments: dict[str, Any], texts: dict[str, str], form: ToolFormat, values: MemberValues) -> None:
    """Refuse values that would be read as others."""
    try:
        read = values.read({name: member_text(text, form.cdata) for name, text in texts.items()})
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
    for name, value in arguments.items():
        if _dumped(read[name]) != _dumped(value):
            raise ConfigurationError(
                f"the {_kind(value)} {shown(value)} of {name!r} would be read as the {_kind(read[name])} {shown(read[name])}"
            )


def _kind(value: Any) -> str:
    return "string" if isinstance(value, str) else "JSON value"


def _dumped(value: Any, form: ToolFormat | None = None) -> str:
    """Return the JSON text of a value, with the strings and the white space of a format if it is given."""
    try:
        if form is None:
            return text_of_value(value)
        return text_of_value(value, strings=form.string_spelling, compact=form.whitespace == "compact")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"the arguments are {shown(value)}, which is not JSON ({error}); allowed are JSON values"
        ) from None
