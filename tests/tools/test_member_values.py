"""Arguments whose strings are raw text: what a text stands for, where it may be a string or something else."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit import ToolCall, Tools, Vocabulary
from logitkit.errors import ConfigurationError
from logitkit.tools.member_values import MemberValues
from tests.examples import examples
from tests.json_schema.judge import judge

BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
STRING = {"type": "string"}
CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
KINDS: dict[str, Any] = {
    "type": "object",
    "oneOf": [
        {"properties": {"v": STRING, "kind": {"const": "text"}}, "required": ["v", "kind"]},
        {"properties": {"v": {"type": "integer"}, "kind": {"const": "number"}}, "required": ["v", "kind"]},
    ],
}


def tools(parameters: Any) -> Tools:
    return Tools([{"name": "f", "parameters": parameters}], "qwen_coder", choice="required")


def of_member(schema: Any) -> Tools:
    return tools({"type": "object", "properties": {"s": schema}, "required": ["s"]})


def turn(**texts: str) -> str:
    members = "".join(f"<parameter={name}>\n{text}\n</parameter>\n" for name, text in texts.items())
    return f"<tool_call>\n<function=f>\n{members}</function>\n</tool_call>"


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"anyOf": [STRING, {"type": "integer", "minimum": 10}]}, "5", "5"),
        ({"anyOf": [STRING, {"type": "integer", "minimum": 10}]}, "10", 10),
        ({"anyOf": [STRING, {"type": "integer", "minimum": 10}]}, "10.5", "10.5"),
        ({"enum": ["1", "2", 3]}, "1", "1"),
        ({"enum": ["1", "2", 3]}, "3", 3),
        ({"anyOf": [{"type": "string", "pattern": "^[0-9]{4}$"}, {"type": "integer", "maximum": 9}]}, "2024", "2024"),
        ({"anyOf": [STRING, {"type": "array", "items": {"type": "integer"}}]}, '["a"]', '["a"]'),
        ({"anyOf": [STRING, {"type": "array", "items": {"type": "integer"}}]}, "[1]", [1]),
        ({"anyOf": [STRING, CLOSED]}, "{}", "{}"),
        ({"anyOf": [STRING, CLOSED]}, '{"a": 1}', {"a": 1}),
        ({"type": ["string", "number"]}, "NaN", "NaN"),
        ({"type": ["string", "number"]}, "1e999", "1e999"),
        ({}, '{"a":-Infinity}', '{"a":-Infinity}'),
        ({}, '{"a": 1}', {"a": 1}),
        ({}, '"a"', '"a"'),
    ],
)
def test_a_text_stands_for_a_value_that_the_schema_allows(schema: Any, text: str, value: Any) -> None:
    read = of_member(schema).parse(turn(s=text))
    assert read.complete
    assert json.dumps(read.calls[0].arguments) == json.dumps({"s": value})
    assert of_member(schema).write([ToolCall("f", {"s": value})]) == turn(s=text)


@pytest.mark.parametrize(("kind", "value"), [("text", "5"), ("number", 5)])
def test_it_may_depend_on_a_member_after_it(kind: str, value: Any) -> None:
    read = tools(KINDS).parse(turn(v="5", kind=kind))
    assert read.complete
    assert read.calls[0].arguments == {"v": value, "kind": kind}


@pytest.mark.parametrize("others", [1, 9])
def test_with_a_negation_one_of_many_may_be_a_string(others: int) -> None:
    """At least one member whose name begins with x is not an integer, and there is only one such member."""
    no_integer = {"not": {"patternProperties": {"^x": {"type": "integer"}}}}
    schema = {"type": "object", "additionalProperties": True, **no_integer}
    read = tools(schema).parse(turn(x="1", **{f"y{i}": "1" for i in range(others)}))
    assert read.complete
    assert judge(schema).is_valid(read.calls[0].arguments)


@pytest.mark.parametrize("text", ["1E400", "[1E400]"])
def test_a_number_that_is_too_large_is_not_taken_for_a_forbidden_string(text: str) -> None:
    numbers = {"type": "array", "items": {"type": "number"}}
    read = of_member({"anyOf": [{"type": "number"}, numbers, {"type": "string", "format": "date"}]}).parse(turn(s=text))
    assert not read.complete
    assert "1E400 is too large for a float" in str(read.problem)


def test_the_end_tag_may_stand_in_json() -> None:
    """Beside limited strings a value is JSON, where the tag stands in a string."""
    schema = {"anyOf": [{"type": "array", "items": STRING}, {"const": "x"}]}
    text = turn(s='["</parameter>"]')
    assert of_member(schema).constraint(BYTES).matches(text)
    read = of_member(schema).parse(text)
    assert read.complete
    assert read.calls[0].arguments == {"s": ["</parameter>"]}
    stream = of_member(schema).stream()
    for character in text:
        stream.feed(character)
    assert stream.finish()[1].calls == read.calls


@pytest.mark.parametrize(
    ("schema", "arguments", "message"),
    [
        ({"properties": {"s": {}}}, {"s": ["</parameter>"]}, "contains '</parameter>'"),
        ({"properties": {"s": STRING}}, {"s": "</parameter>"}, "the string .* contains '</parameter>'"),
        ({"additionalProperties": {}}, {"a>b": "x"}, "the name 'a>b' cannot be written"),
        ({"additionalProperties": {}}, {"": "x"}, "the name '' cannot be written: it is empty"),
        ({}, None, "the arguments of 'f' are None, which is not a dict"),
        ({}, [1], "the arguments of 'f' are .1., which is not a dict"),
    ],
)
def test_what_would_be_read_as_something_else_is_not_written(schema: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tools({"type": "object", **schema}).write([ToolCall("f", arguments)])


def test_a_schema_that_cannot_be_read_has_no_order() -> None:
    parameters = {"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}}
    found = Tools([{"name": "f", "parameters": parameters}], "hermes")
    assert '{"b": 1, "a": 2}' in found.write([ToolCall("f", {"b": 1, "a": 2})])


def test_many_values_and_nested_branches_are_within_the_budget() -> None:
    kinds = [
        {"properties": {"kind": {"const": k}, "child": {"$ref": "#/$defs/n"}}, "required": ["kind"]} for k in "abcd"
    ]
    parameters: dict[str, Any] = {
        "type": "object",
        "properties": {"numbers": {"type": "array", "items": {"type": "number"}}, "o": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "object", "anyOf": kinds}},
    }
    value: dict[str, Any] = {"kind": "d"}
    for _ in range(30):
        value = {"child": value, "kind": "d"}
    arguments = {"numbers": [i / 7 for i in range(20_000)], "o": value}
    for name in ("hermes", "qwen_coder"):
        found = Tools([{"name": "f", "parameters": parameters}], name)
        # With a time that doubles at each level, the budget would be exceeded, and the members stay as they are.
        assert MemberValues(parameters).read({"o": json.dumps(value)}) == {"o": value}
        assert '"kind": "d", "child"' in found.write([ToolCall("f", arguments)])


TEXTS = ["", "a", "1", "5", "12", "1.5", "true", "null", "[]", "[1]", '["a"]', "{}", '{"a":1}', '{"b":1}', '"a"', "NaN"]
MEMBERS: list[Any] = [
    STRING,
    {"type": "string", "maxLength": 2},
    {"type": "string", "pattern": "^[0-9]*$"},
    {"enum": ["1", 5, None, [1], {"a": 1}]},
    {"type": "integer", "minimum": 2},
    {"type": ["boolean", "null"]},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
    CLOSED,
]


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.lists(st.sampled_from(MEMBERS), min_size=2, max_size=2), min_size=1, max_size=3), st.data())
def test_arguments_of_a_legal_turn_are_valid(branches: list[list[Any]], data: st.DataObject) -> None:
    schema = {
        "type": "object",
        "anyOf": [{"properties": {"a": one, "b": other}, "required": ["a", "b"]} for one, other in branches],
    }
    given_tools = tools(schema)
    constraint = given_tools.constraint(BYTES)
    legal = 0
    for _ in range(12):
        text = turn(a=data.draw(st.sampled_from(TEXTS)), b=data.draw(st.sampled_from(TEXTS)))
        read = given_tools.parse(text)
        if constraint.matches(text):
            legal += 1
            assert read.complete
            assert judge(schema).is_valid(read.calls[0].arguments), (schema, text)
            assert given_tools.parse(given_tools.write(read.calls)).calls[0].arguments == read.calls[0].arguments


@pytest.mark.parametrize("value", [2, True, None, [1], 1.5])
def test_what_would_be_read_as_a_string_is_not_written(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="would be read as the string"):
        of_member(STRING).write([ToolCall("f", {"s": value})])


@pytest.mark.parametrize("name", ["hermes", "qwen_coder"])
@pytest.mark.parametrize(
    ("number", "problem"), [("3E619", "is too large for a float"), ("1" * 5000, "5000 digits is too large")]
)
def test_numbers_that_python_cannot_hold_are_a_problem(name: str, number: str, problem: str) -> None:
    parameters = {"type": "object", "properties": {"s": {"type": "number"}}, "required": ["s"]}
    found = Tools([{"name": "f", "parameters": parameters}], name)
    text = f'<tool_call>\n{{"name": "f", "arguments": {{"s": {number}}}}}\n</tool_call>'
    read = found.parse(turn(s=number) if name == "qwen_coder" else text)
    assert not read.calls
    assert not read.complete
    assert problem in str(read.problem)


@pytest.mark.parametrize("name", ["hermes", "qwen_coder", "mistral"])
def test_members_inside_are_written_in_order(name: str) -> None:
    inside = {"type": "object", "properties": {"b": {}, "a": {}}}
    parameters = {"type": "object", "properties": {"o": {"type": "array", "items": inside}}}
    found = Tools([{"name": "f", "parameters": parameters}], name)
    read = found.parse(found.write([ToolCall("f", {"o": [{"a": 1, "b": 2}]})]))
    assert read.outside_at is None
    assert json.dumps(read.calls[0].arguments) == '{"o": [{"b": 2, "a": 1}]}'


def test_threads_read_with_one_reader() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as pool:
            for most in range(1, 30):
                schemas, arguments = {}, {}
                for j in range(6):
                    text = {"type": "string", "pattern": f"^a{{1,{most + j}}}b*$"}
                    item = {"type": "object", "properties": {f"k{most}": text}}
                    schemas[f"m{j}"] = {"anyOf": [{"type": "string", "maxLength": j}, {"type": "array", "items": item}]}
                    arguments[f"m{j}"] = [{f"k{most}": "ab"}]
                values = MemberValues({"type": "object", "properties": schemas})
                texts = {name: json.dumps(value) for name, value in arguments.items()}
                assert [*pool.map(values.read, [texts] * 6)] == [arguments] * 6
    finally:
        sys.setswitchinterval(interval)
