"""Tools, vocabularies and token ids for the tests of turns."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Literal

from logitkit import ToolCall, ToolFormat, Tools, Vocabulary
from logitkit.tools.formats import TOOL_FORMATS

EOS = 256
# Formats with what no known format has: ids and numbers of calls, one list of calls, arguments with names, tags that say what a
# value is, and names that stand twice.
LISTED = ToolFormat(
    name="listed",
    calls_begin="[CALLS] [",
    call_begin='{"name": "',
    name_end='", "arguments": ',
    call_end=', "id": "{id}"}',
    separator=", ",
    calls_end="]",
    trigger="[CALLS]",
    id_length=9,
    tokens=("[CALLS]",),
    reasoning_begin="<think>\n",
    reasoning_end="</think>",
)
NUMBERED = ToolFormat(
    name="numbered",
    calls_begin="<|calls|>",
    call_begin="<|call|>functions.",
    name_end=":{number}<|args|>",
    call_end="<|done|>",
    calls_end="<|all|>",
    trigger="<|calls|>",
    leading_space="\n",
    reasoning_begin="<think>",
    reasoning_end="</think>",
)
KEYWORDS = ToolFormat(
    name="keywords",
    calls_begin="[",
    call_begin="",
    name_end="(",
    call_end=")",
    separator=", ",
    calls_end="]",
    arguments="python",
    parameter_begin="{name}=",
    parameter_separator=", ",
    literals="python",
)
# Strings as Python shows them, in keyword arguments, and in arrays and objects between tags; and with ASCII characters only.
SHOWN = replace(KEYWORDS, name="shown", strings="python")
SHOWN_TAGS = ToolFormat(
    name="shown_tags",
    call_begin="<call>\n<function=",
    name_end=">\n",
    call_end="</function>\n</call>",
    trigger="<call>",
    arguments="xml",
    parameter_begin="<parameter={name}>",
    parameter_end="</parameter>\n",
    literals="python",
    strings="python",
    reasoning_begin="<think>",
    reasoning_end="</think>",
)
TOLD = ToolFormat(
    name="told",
    calls_begin="<calls>\n",
    call_begin='<call name="{id}:',
    name_end='">\n',
    call_end="</call>",
    separator="\n",
    calls_end="\n</calls>",
    trigger="<calls>",
    arguments="xml",
    parameter_begin='<arg name="{name}" string="{kind}">',
    parameter_kinds=("true", "false"),
    parameter_end="</arg>",
    parameter_separator=",",
    literals="python",
    reasoning_begin="<think>\n",
    reasoning_end="</think>",
)
QUOTED = ToolFormat(
    name="quoted",
    call_begin='<call>{"name": "',
    name_end='", "arguments": ',
    call_end="}</call>",
    trigger="<call>",
    arguments="json_string",
    reasoning_begin="<think>\n",
    reasoning_end="</think>",
)
TWICE = ToolFormat(
    name="twice",
    call_begin=" to=",
    name_end='<|message|><calls>\n<call name="',
    name_again='">\n',
    call_end="</call>\n</calls>",
    separator="<|next|>",
    text_begin=" to=user<|message|>",
    arguments="xml",
    parameter_begin='<arg name="{name}">',
    parameter_end="</arg>\n",
    tokens=("<|message|>", "<|next|>"),
    reasoning_begin=" to=self<|message|>",
    reasoning_end="<|next|>",
    reasoning_opened=True,
)
ASCII = replace(QUOTED, name="ascii", arguments="json", strings="ascii")
BARE = ToolFormat(
    name="bare",
    call_begin="<tool_call>",
    name_end="",
    call_end="</tool_call>",
    separator="\n",
    trigger="<tool_call>",
    arguments="xml",
    parameter_begin="<arg_key>{name}</arg_key><arg_value>",
    parameter_end="</arg_value>",
    reasoning_begin="<think>\n",
    reasoning_end="</think>",
)
NAMED = ToolFormat(
    name="named",
    call_begin="",
    name_end="\n",
    call_end="",
    separator="<|next|>",
    text_begin="all\n",
    tokens=("<|next|>",),
)
# All values between double quotes, after names that nothing stands before.
BETWEEN = ToolFormat(
    name="between",
    calls_begin="[",
    call_begin="",
    name_end="(",
    call_end=")",
    separator=", ",
    calls_end="]",
    arguments="xml",
    parameter_begin='{name}="',
    parameter_end='"',
    parameter_separator=", ",
    literals="python",
    strings="python",
)
# Tags that name the type of a value.
TYPED = replace(
    TOLD,
    name="typed",
    parameter_begin='<arg key="{name}" type="{kind}">',
    parameter_kinds=("string", "number", "boolean", "null", "object", "array"),
)
# Strings with markup in CDATA sections.
SECTIONS = ToolFormat(
    name="sections",
    call_begin='<function name="',
    name_end='">',
    call_end="</function>",
    separator="\n",
    trigger="<function name=",
    arguments="xml",
    parameter_begin='<param name="{name}">',
    parameter_end="</param>",
    literals="python",
    strings="python",
    cdata=("<", "&", "\n"),
    reasoning_begin="<think>\n",
    reasoning_end="</think>",
)
# Strings without escapes between special tokens, names without quotes, and members sorted by name; and all of that otherwise.
DELIMITED = ToolFormat(
    name="delimited",
    call_begin="<|tool_call>call:",
    name_end="{",
    call_end="}<tool_call|>",
    trigger="<|tool_call>",
    arguments="python",
    parameter_begin="{name}:",
    parameter_separator=",",
    literals="none",
    strings="delimited",
    string_delimiter='<|"|>',
    bare_names=True,
    member_order="sorted_ignoring_case",
    whitespace="compact",
    tokens=("<|tool_call>", "<tool_call|>", '<|"|>'),
    reasoning_begin="<|channel>thought\n",
    reasoning_end="<channel|>",
)
DELIMITED_NAMES = replace(
    KEYWORDS, name="delimited_names", strings="delimited", string_delimiter="`", member_order="sorted"
)
# Names without quotes in objects, and names of Python before `=`.
DELIMITED_OBJECTS = replace(DELIMITED_NAMES, name="delimited_objects", bare_names=True)
OWN = (
    *(LISTED, NUMBERED, KEYWORDS, TOLD, BARE, NAMED, QUOTED, TWICE, SHOWN, SHOWN_TAGS, ASCII, BETWEEN, TYPED, SECTIONS),
    *(DELIMITED, DELIMITED_NAMES, DELIMITED_OBJECTS),
)
FORMATS = {**TOOL_FORMATS, **{form.name: form for form in OWN}}


def get_weather(city: str, days: int = 1, unit: Literal["C", "F"] = "C") -> str:
    """Tell the weather.

    Args:
        city: The city.
        days: How many days.
        unit: Celsius or Fahrenheit.
    """
    return f"{city} {days} {unit}"


def ping() -> None:
    """Do nothing."""


def save(note: dict[str, Any], tags: list[str], title: str | None = None) -> None:
    """Save a note."""


TOOLS = [get_weather, ping, save]


@cache
def vocabulary(form: ToolFormat) -> Vocabulary:
    """All bytes, EOS, and the special tokens of a format."""
    tokens = [*(bytes([byte]) for byte in range(256)), None, *[None] * len(form.tokens)]
    return Vocabulary(tokens, eos_ids=[EOS], special={name: EOS + 1 + i for i, name in enumerate(form.tokens)})


def ids_of(text: str, form: ToolFormat) -> list[int]:
    """The ids of a text, in which names of special tokens stand for the tokens."""
    found: list[int] = []
    while text:
        name = next((name for name in form.tokens if text.startswith(name)), None)
        if name is not None:
            found.append(vocabulary(form).special[name])
        else:
            found.extend(text[0].encode())
        text = text.removeprefix(name) if name is not None else text[1:]
    return found


@cache
def tools_of(name: str, choice: str = "auto", parallel: bool = True) -> Tools:
    """The tools in a format, so that each is compiled once."""
    return Tools(TOOLS, FORMATS[name], choice=choice, parallel=parallel)


def same(calls: tuple[ToolCall, ...], expected: list[ToolCall]) -> bool:
    """Whether calls are equal, but for where they stand."""
    return [(c.name, c.arguments) for c in calls] == [(c.name, c.arguments) for c in expected]


def accepts(tools: Tools, form: ToolFormat, text: str) -> bool:
    """Whether a text is a complete turn."""
    turn = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
    return turn.outside_at is None
