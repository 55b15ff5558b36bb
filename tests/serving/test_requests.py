"""Bodies of requests become configurations, which the core reads."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.tools.formats import TOOL_FORMATS
from logitkit_adapters.serving.refusals import RefusedRequest
from logitkit_adapters.serving.requests import MOST_STOPS, ServedRequest, read_request
from tests.examples import examples

VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
ONE: Any = {"type": "function", "function": {"name": "one", "parameters": {"type": "object", "properties": {}}}}
TWO: Any = {"type": "function", "function": {"name": "two", "parameters": {"type": "object", "properties": {}}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}


def read(body: dict[str, Any], **more: Any) -> ServedRequest | None:
    return read_request(body, lambda: TOOL_FORMATS["hermes"], **more)


def accepts(config: Any, text: str) -> bool:
    made: Any = lk.from_config(json.loads(json.dumps(config)), VOCABULARY)
    found: bool = made.nested_dfa().accepts(text.encode())
    return found


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"stop": None, "tools": None, "tool_choice": None, "response_format": None, "logitkit": None},
        {"response_format": {"type": "text"}, "tools": [], "tool_choice": "none", "stop": []},
    ],
)
def test_a_request_of_the_engine_alone(body: dict[str, Any]) -> None:
    assert read(body) is None


def call(name: str) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {{}}}}\n</tool_call>'


ALLOWED_TOOLS = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [TWO]}}


@pytest.mark.parametrize(
    ("choice", "texts"),
    [
        ("auto", {"": True, "Hi": True, call("one"): True, call("two"): True, call("no"): False}),
        ("none", {"Hi": True, call("one"): False}),
        ("required", {"Hi": False, call("one"): True, f"{call('one')}\n{call('two')}": True}),
        ({"type": "function", "function": {"name": "one"}}, {call("one"): True, call("two"): False}),
        (ALLOWED_TOOLS, {call("one"): False, call("two"): True, "Hi": False}),
    ],
)
def test_choices_of_tools(choice: Any, texts: dict[str, bool]) -> None:
    asked = read({"tools": [ONE, TWO], "tool_choice": choice})
    assert asked is not None
    assert {text: accepts(asked.configs[0], text) for text in texts} == texts


def test_one_call_only() -> None:
    asked = read({"tools": [ONE, TWO], "tool_choice": "required", "parallel_tool_calls": False})
    assert asked is not None
    assert not accepts(asked.configs[0], f"{call('one')}\n{call('two')}")


def test_an_answer_beside_tools() -> None:
    asked = read({"tools": [ONE], "response_format": FORMAT})
    assert asked is not None
    texts = {call("one"): True, '{"a": 1}': True, "Hi": False}
    assert {text: accepts(asked.configs[0], text) for text in texts} == texts


@settings(max_examples=examples(60), deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text("a{", max_size=3),
        lambda inside: st.lists(inside, max_size=2) | st.dictionaries(st.sampled_from("ab"), inside, max_size=2),
    )
)
def test_formats_allow_what_their_schema_allows(value: Any) -> None:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for given_format, schema in ((FORMAT, SCHEMA), ({"type": "json_object"}, {"type": "object"})):
        asked = read({"response_format": given_format})
        assert asked is not None
        valid = jsonschema.Draft202012Validator(schema).is_valid(value)
        assert accepts(asked.configs[0], text) == valid


def test_the_text_closes_within_the_limit_if_it_can() -> None:
    asked = read({"response_format": FORMAT, "max_tokens": 5, "logitkit": {"top_k": 3}}, max_tokens=99)
    assert asked is not None
    assert asked.max_tokens == 5
    closed, plain = asked.configs
    assert closed["json_schema"] == {"schema": SCHEMA, "closing": True}
    assert plain == {"top_k": 3, "json_schema": {"schema": SCHEMA}}
    assert read({"response_format": FORMAT, "max_completion_tokens": 7, "max_tokens": 5}).max_tokens == 7  # type: ignore[union-attr]
    assert read({"response_format": FORMAT}, max_tokens=9).max_tokens == 9  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("body", "parameter"),
    [
        ({"response_format": {"type": "json_schema"}}, "response_format"),
        ({"response_format": "json"}, "response_format"),
        ({"response_format": {"type": "json_object", "json_schema": {"schema": SCHEMA}}}, "response_format"),
        ({"response_format": {**FORMAT, "schema": SCHEMA}}, "response_format"),
        ({"response_format": {**FORMAT, "type": "text"}}, "response_format"),
        ({"response_format": {"type": "text", "schema": {}}}, "response_format"),
        ({"tools": "x"}, "tools"),
        ({"tools": [{"type": "custom", "custom": {"name": "x"}}]}, "tools"),
        ({"tools": [ONE, ONE]}, "tools"),
        ({"tools": [ONE], "tool_choice": "any"}, "tool_choice"),
        ({"tools": [ONE], "tool_choice": {"type": "function"}}, "tool_choice"),
        ({"tools": [ONE], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [TWO]}}, "tool_choice"),
        ({"tools": [ONE], "parallel_tool_calls": "yes"}, "parallel_tool_calls"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a"] * (MOST_STOPS + 1)}, "stop"),
        ({"logitkit": "{"}, "logitkit"),
        ({"logitkit": '{"regex": "a", "regex": "b"}'}, "logitkit"),
        ({"logitkit": 5}, "logitkit"),
        ({"logitkit": {"chain": []}, "response_format": FORMAT}, "response_format"),
        ({"logitkit": {"tools": []}, "tools": [ONE]}, "tools"),
        ({"logitkit": {"regex": "a" * 2**20}}, None),
    ],
)
def test_refused(body: dict[str, Any], parameter: str | None) -> None:
    with pytest.raises(RefusedRequest) as caught:
        read(body)
    assert caught.value.parameter == parameter
    assert caught.value.status == 400


values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4),
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "function", "name", "mode", "tools", "schema", "json_schema", "x"]),
            inside,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@settings(max_examples=examples(400), deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("tools", "tool_choice", "response_format", "stop", "logitkit", "parallel_tool_calls", "max_tokens"), values
        ),
    )
)
def test_any_body_is_read_or_refused(body: dict[str, Any]) -> None:
    message = "read"
    try:
        read(body)
    except RefusedRequest as refused:
        message = refused.body()["error"]["message"]
    assert message
