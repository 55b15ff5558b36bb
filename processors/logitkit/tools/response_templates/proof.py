"""Proves that a response template reads what a format writes as the same calls, text and reasoning."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from logitkit.errors import ConfigurationError
from logitkit.tools.formats.tool_format import ToolFormat
from logitkit.tools.json_values import text_of_value
from logitkit.tools.response_templates.parsing import Parsed, ResponseParser
from logitkit.tools.tools import Tools
from logitkit.tools.turn import ToolCall

__all__ = ["unread"]

# How many sets of calls are written and read.
PROOFS = 60
# How many times a call is drawn again because it cannot be written.
TRIES = 20

_TEXT = {"type": "string"}
_TOOLS: Mapping[str, Mapping[str, Any]] = {
    "find_place": {"place": _TEXT, "limit": {"type": "integer"}},
    "save_note": {
        "text": _TEXT,
        "tags": {"type": "array", "items": _TEXT},
        "more": {
            "type": "object",
            "properties": {"deep": {"type": "array"}, "on": _TEXT},
            "additionalProperties": False,
        },
        "rate": {"type": "number"},
        "done": {"type": "boolean"},
    },
    "ping": {},
}
_SCHEMAS = [
    {"name": name, "parameters": {"type": "object", "properties": dict(members)}} for name, members in _TOOLS.items()
]
_TEXTS = (
    *(
        "",
        " ",
        "plain",
        "two words",
        "5",
        "true",
        "null",
        "NaN",
        '{"a": 1}',
        "[1]",
        '"',
        '""',
        "a\nb",
        "\n",
        " x ",
        "x\t",
    ),
    *(
        "'",
        "\\",
        '\\"',
        "\\n",
        "é",
        "😀",
        "\u2028x",
        "</",
        "<x>",
        "&amp;",
        "{",
        "}",
        "]",
        "a, b=2)",
        "[TOOL",
        "<|",
        "null ",
    ),
)
SAID, THOUGHT = "Let me look.", "Where is it?"


def unread(form: ToolFormat, parser: ResponseParser, end: str) -> str | None:
    """Return what is read otherwise than it was written; None if nothing is.

    Args:
        form: The format that writes.
        parser: The parser that reads.
        end: The text after a turn, such as that of an EOS token.

    Raises:
        ConfigurationError: Reading takes too many steps.
    """
    try:
        tools = Tools(_SCHEMAS, form)
    except ConfigurationError as error:
        return str(error)
    draw = random.Random(20261129)  # noqa: S311 - the same calls each time
    template = parser.template
    is_implicit = template.content is not None and template.content.open is None
    for number in range(PROOFS):
        written = _written(draw, tools)
        if written is None:
            return "no calls can be written"
        calls, text = written
        says = is_implicit and form.trigger is not None and number % 2 == 1
        thinks = template.reasoning is not None and number % 3 == 2
        turn = f"{SAID}\n{text}" if says else text
        turn = f"{form.reasoning_begin}{THOUGHT}{form.reasoning_end}{turn}" if thinks else turn
        expected = [(call.name, _as_read(call.arguments, parser), call.id) for call in calls]
        problem = _difference(parser, turn + end, Parsed(expected, SAID * says, THOUGHT * thinks))
        if problem is not None:
            return problem
    if template.content is None:
        return None
    return _difference(parser, f"{form.text_begin}{SAID}{end}", Parsed([], SAID, ""))


def _written(draw: random.Random, tools: Tools) -> tuple[list[ToolCall], str] | None:
    for _ in range(TRIES):
        count = 1 if tools.form.separator is None else draw.choice((1, 1, 2, 3))
        calls = [_call(draw, tools) for _ in range(count)]
        try:
            return calls, tools.write(calls)
        except ConfigurationError:
            continue
    return None


def _call(draw: random.Random, tools: Tools) -> ToolCall:
    """Return a random call that can be written."""

    def value(member: Mapping[str, Any]) -> Any:
        match member["type"]:
            case "string":
                return draw.choice(_TEXTS) + (draw.choice(_TEXTS) if draw.random() < 0.3 else "")
            case "array":
                return [draw.choice(_TEXTS) for _ in range(draw.randrange(3))]
            case "object":
                return draw.choice(({}, {"deep": [1, -2]}, {"deep": [], "on": draw.choice(_TEXTS)}))
            case "boolean":
                return draw.random() < 0.5
            case kind:
                return draw.choice((0, 7, -3, 10**12) if kind == "integer" else (0.5, -2, 1e-9, 3.25))

    name = draw.choice([*_TOOLS])
    id_ = "".join(draw.choices("abcXYZ019", k=9)) if any("{id}" in text for text in _around(tools.form)) else None
    arguments: dict[str, Any] = {}
    for member, schema in _TOOLS[name].items():
        if draw.random() < 0.7:
            given = value(schema)
            try:
                tools.write([ToolCall(name, {member: given}, id=id_)])
            except ConfigurationError:
                given = "plain" if schema is _TEXT else None
            if given is not None:
                arguments[member] = given
    return ToolCall(name, arguments, id=id_)


def _around(form: ToolFormat) -> tuple[str, ...]:
    return form.call_begin, form.name_end, form.call_end


def _as_read(arguments: Mapping[str, Any], parser: ResponseParser) -> dict[str, Any]:
    """Return arguments as the parser gives them: without a parser of values, tags hold texts, which only a schema types."""
    field = parser.template.calls
    if field.parser != "xml-inline" or ((field.arguments or {}).get("value_parser") or {}).get("name") == "json":
        return dict(arguments)
    return {name: value if isinstance(value, str) else text_of_value(value) for name, value in arguments.items()}


def _difference(parser: ResponseParser, text: str, expected: Parsed) -> str | None:
    try:
        found = parser.parse(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigurationError):
            raise
        return f"{text!r} cannot be read ({error})"
    wanted = _comparable(expected.calls)
    if _comparable(found.calls) != wanted:
        return f"{text!r} would be read as the calls {found.calls!r}"
    if parser.template.content is not None and found.content != expected.content:
        return f"{text!r} would be read as the text {found.content!r}"
    if found.reasoning != expected.reasoning:
        return f"{text!r} would be read as the reasoning {found.reasoning!r}"
    return None


def _comparable(calls: Sequence[tuple[str, Any, str | None]]) -> list[str]:
    return [json.dumps(call, sort_keys=True) for call in calls]
