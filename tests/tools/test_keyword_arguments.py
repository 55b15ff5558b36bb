"""Arguments with names, against Python itself: a text is accepted if Python reads it as a call with allowed arguments."""

from __future__ import annotations

import ast
import json
from itertools import product
from typing import Any, get_args

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from logitkit import ToolCall, ToolFormat, Tools, Vocabulary
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.languages import sequence
from logitkit.languages.keyword_arguments import KeywordArguments
from logitkit.tools.json_values import JsonEnd, python_of_value, value_of_python
from tests.examples import examples
from tests.tools.turns import KEYWORDS, same, vocabulary

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 6},
        "days": {"type": ["integer", "null"], "minimum": 1},
        "on": {"type": "boolean"},
        "more": {
            "type": "object",
            "properties": {"tags": {"type": "array", "items": {"enum": ["a", "b", 1, True]}}, "x": {"type": "null"}},
            "additionalProperties": False,
        },
    },
    "required": ["city"],
    "additionalProperties": False,
}
BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
ARGUMENTS: dict[str, KeywordArguments] = {
    strings: KeywordArguments(SCHEMA, "{name}=", ", ", literals="python", strings=strings)
    for strings in get_args(StringSpelling)
}
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.text("ab\"'\\é\n,)=", max_size=7),
    st.integers(-1, 12),
    st.sampled_from(
        [None, True, False, 0.5, {}, [], {"tags": ["a", True, 1]}, {"x": None}, {"tags": [], "x": None}, {"y": 1}]
    ),
)


def read(text: str) -> dict[str, Any] | None:
    """Return the arguments that Python reads, or None if it is not such a call."""
    try:
        call = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    if not isinstance(call, ast.Call) or call.args:
        return None
    try:
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except ValueError:
        return None


def python(value: Any, strings: str = "json") -> str:
    """Write a value as Python does, with strings in some spelling."""
    if isinstance(value, str):
        return repr(value) if strings == "python" else json.dumps(value, ensure_ascii=strings == "ascii")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{python(k, strings)}: {python(inside, strings)}" for k, inside in value.items()) + "}"
    return f"[{', '.join(python(inside, strings) for inside in value)}]" if isinstance(value, list) else repr(value)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), VALUES, max_size=4),
    st.sampled_from(get_args(StringSpelling)),
)
def test_what_is_accepted_is_what_python_and_the_schema_allow(members: dict[str, Any], strings: str) -> None:
    order = [*SCHEMA["properties"], "other"]
    members = {name: members[name] for name in order if name in members}
    text = f"f({', '.join(f'{name}={python(value, strings)}' for name, value in members.items())})"
    assert read(text) == members
    constraint = sequence("f(", ARGUMENTS[strings], ")").constraint(BYTES)
    assert constraint.matches(text) == Draft202012Validator(SCHEMA).is_valid(members), text
    if constraint.matches(text):
        for at in range(2, len(text) - 1):
            for other in ("", "x", " ", '"', "'", "1"):
                changed = text[:at] + other + text[at + 1 :]
                found = read(changed)
                assert not constraint.matches(changed) or (
                    found is not None and Draft202012Validator(SCHEMA).is_valid(found)
                ), changed


ITEMS = [None, True, False, 1, "True", {"a": None}]


@pytest.mark.parametrize(
    "unique",
    [
        {"uniqueItems": True},
        {"uniqueItems": True, "prefixItems": [{"const": [None]}]},
        {"not": {"uniqueItems": True}, "maxItems": 4},
        {"anyOf": [{"uniqueItems": True}, {"const": [None, None]}]},
    ],
)
@pytest.mark.parametrize(("literals", "strings"), [("json", "json"), ("python", "json"), ("python", "python")])
def test_items_of_a_few_values_are_told_apart(unique: dict[str, Any], literals: Any, strings: Any) -> None:
    array: dict[str, Any] = {"type": "array", "items": {"enum": ITEMS}, **unique}
    schema = {"type": "object", "properties": {"x": array}, "required": ["x"], "additionalProperties": False}
    constraint = KeywordArguments(schema, "{name}=", ", ", literals=literals, strings=strings).constraint(BYTES)
    judge = Draft202012Validator(schema)
    write = (lambda value: python(value, strings)) if literals == "python" else json.dumps
    allowed = set()
    for count in range(4):
        for items in product([*ITEMS, [None], "None"], repeat=count):
            text = f"x={write([*items])}"
            assert constraint.matches(text) == judge.is_valid({"x": [*items]}), text
            allowed.add(constraint.matches(text))
    assert allowed == {True, False}


@settings(max_examples=examples(300), deadline=None)
@given(st.text("\\\"'[]{}:, aTrueNonxU01589\n", max_size=14) | VALUES.map(repr))
@example("'")
@example('"')
@example("'a\nb'")
@example("['\r']")
@example("'a\\\nb'")
def test_a_text_is_read_as_python_reads_it(text: str) -> None:
    """Or not at all: JSON has fewer values and fewer spellings."""
    try:
        found = value_of_python(text, "python")
    except ValueError:
        return
    assert repr(found) == repr(ast.literal_eval(text.strip())), text


@settings(max_examples=examples(200), deadline=None)
@given(st.recursive(VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner)))
def test_a_value_that_python_shows_is_read(value: Any) -> None:
    assert value_of_python(repr(value), "python") == value
    assert ast.literal_eval(python_of_value(value, "python")) == value
    text = python_of_value(value, "python")
    if text[0] in "[{\"'":
        end = JsonEnd(0, "python")
        # In pieces, the end is found where it is.
        assert [at for at in range(len(text + ", x")) if end.find((text + ", x")[:at])][:1] == [len(text)]


TOOL = {"name": "f", "parameters": SCHEMA}


@pytest.mark.parametrize("literals", ["json", "python"])
@pytest.mark.parametrize("separator", [", ", "; ", ""])
def test_a_call_is_read_while_it_grows(literals: Any, separator: str) -> None:
    fields = {name: getattr(KEYWORDS, name) for name in ToolFormat.__dataclass_fields__}
    form = ToolFormat(**{**fields, "literals": literals, "parameter_separator": separator})
    tools = Tools([TOOL], form, choice="required")
    calls = [
        ToolCall("f", {"city": 'a")\\', "days": 12, "on": True, "more": {"tags": ["a", True], "x": None}}),
        ToolCall("f", {"city": "None", "days": None}),
    ]
    text = tools.write(calls)
    assert ("True" in text) == (literals == "python")
    stream = tools.stream()
    for character in text:
        stream.feed(character)
    turn = stream.finish()[1]
    assert same(turn.calls, calls)
    assert (turn.problem, turn.outside_at, turn.complete) == (None, None, True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[f(city="a", city="b")]', "given twice"),
        ('[f(city:"a")]', "is not followed by '='"),
        ("[f(city=?)]", "is not a value"),
        ("[f(on=true)]", "cannot be read"),
        ("[f(on=Maybe)]", "is not a value"),
        ('[f(city="a"', "a call ends with ')'"),
        ('[f(city="a', "ends within"),
    ],
)
def test_what_is_not_such_a_call_has_a_problem(text: str, problem: str) -> None:
    turn = Tools([TOOL], KEYWORDS, choice="required").parse(text)
    assert turn.problem is not None
    assert problem in turn.problem
    assert turn.calls == ()


def test_names_that_python_does_not_have_are_refused() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"a-b": {"type": "string"}}}}
    with pytest.raises(UnsupportedSchema, match="is not a name of Python"):
        Tools([tool], KEYWORDS).constraint(vocabulary(KEYWORDS))
    with pytest.raises(ConfigurationError, match="is not a name of Python"):
        Tools([tool], KEYWORDS).write([ToolCall("f", {"a-b": "x"})])
    free = {"name": "f", "parameters": {"type": "object", "additionalProperties": {"type": "integer"}}}
    constraint = Tools([free], KEYWORDS, choice="required").constraint(vocabulary(KEYWORDS))
    assert constraint.matches("[f(a_1=2, b=3)]")
    for wrong in ("[f(1a=2)]", "[f(a-b=2)]", '[f("a"=2)]', "[f(=2)]"):
        assert not constraint.matches(wrong)


@pytest.mark.parametrize("between", ["", ", ", "; "])
def test_where_no_text_ends_a_call_the_next_one_may_begin_with_a_word(between: str) -> None:
    fields = {name: getattr(KEYWORDS, name) for name in ToolFormat.__dataclass_fields__}
    form = ToolFormat(**{**fields, "call_begin": "tools.", "call_end": "", "separator": between})
    tools = Tools([TOOL, {"name": "g"}], form, choice="required")
    calls = [ToolCall("f", {"city": "a", "days": 1}), ToolCall("g", {}), ToolCall("f", {"city": ""}), ToolCall("g", {})]
    text = tools.write(calls)
    stream = tools.stream()
    for character in text:
        stream.feed(character)
    for turn in (tools.parse(text), stream.finish()[1]):
        assert same(turn.calls, calls)
        assert (turn.problem, turn.outside_at, turn.complete) == (None, None, True)
