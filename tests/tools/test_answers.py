"""Answers that look like calls at first, and errors that name the tool or the answer that they are about."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from logitkit import JsonSchema, ToolCall, Tools
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.languages import regex
from logitkit.tools.turn import CallStarted, TextDelta
from tests.tools.test_turns import NAMES
from tests.tools.turns import EOS, FORMATS, TOOLS, ids_of, same, tools_of, vocabulary


class Person(BaseModel):
    name: str
    age: int


class Note(BaseModel):
    note: str | None = None
    name: str | None = None


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("called", ["Bob", "ping", "<tool_call>", "get_weather"])
def test_an_answer_may_begin_like_a_call(name: str, called: str) -> None:
    form = FORMATS[name]
    tools = Tools(TOOLS, form, answer=Person)
    text = form.text_begin + json.dumps({"name": called, "age": 5})
    ids = [*ids_of(form.text_begin, form), *json.dumps({"name": called, "age": 5}).encode(), EOS]
    for turn in (tools.parse(text), tools.parse(ids, vocabulary(form))):
        assert (turn.text, turn.calls, turn.problem) == (text.removeprefix(form.text_begin), (), None)
        assert (turn.outside_at, turn.complete) == (None, True)
    stream = tools.stream()
    events = [event for character in text for event in stream.feed(character)]
    events += stream.finish()[0]
    assert not [event for event in events if isinstance(event, CallStarted)]
    assert form.text_begin + "".join(event.text for event in events if isinstance(event, TextDelta)) == text
    call = tools.write([ToolCall("ping", {})])
    assert same(tools.parse(call).calls, [ToolCall("ping", {})])
    cut_off = tools.parse(text[: -len("e5}") - 4])
    assert (cut_off.calls, cut_off.complete) == ((), False)


def test_an_answer_that_is_a_pattern_may_begin_like_a_call() -> None:
    tools = Tools(TOOLS, "json", answer=regex(r'\{"name": "[a-z]+"\}'))
    for text in ('{"name": "x"}', '{"name": "ping"}'):
        turn = tools.parse(text)
        assert (turn.text, turn.complete) == (text, True)
    assert same(tools.parse(tools.write([ToolCall("ping", {})])).calls, [ToolCall("ping", {})])


@pytest.mark.parametrize("name", ["llama3_json", "json"])
@pytest.mark.parametrize("answer", [Note.model_json_schema(), True, {"type": "object"}])
def test_answers_may_nest_without_limit_beside_calls(name: str, answer: Any) -> None:
    """A call is followed beside any other object, as far as both may go on."""
    form = FORMATS[name]
    constraint = Tools(TOOLS, form, answer=answer).constraint(vocabulary(form))
    alone = JsonSchema(answer, vocabulary(form))
    begin = form.heads[0][0].removeprefix(form.text_begin)
    objects = [
        '{"a":{"b":[{}]}}',
        '{"name":"x"}',
        '{"name":{"name":1}}',
        '{"name":"ping","a":{}}',
        '{"name":"ping",',
        "[]",
        "1",
    ]
    verdicts = [constraint.matches(form.text_begin + text) for text in objects]
    assert verdicts == [alone.matches(text) for text in objects]
    assert begin.startswith("{")
    assert constraint.matches(Tools(TOOLS, form).write([ToolCall("ping", {})]))
    # A type has only its own members, so it cannot have the arguments of a call.
    assert Tools(TOOLS, form, answer=Note).parse('{"name": "x"}').complete
    assert tools_of("hermes").constraint(vocabulary(FORMATS["hermes"]))


@pytest.mark.parametrize("name", ["llama3_json", "json"])
def test_a_pattern_that_could_be_a_call_is_refused_by_name(name: str) -> None:
    form = FORMATS[name]
    any_arguments = [{"name": "any", "parameters": {"additionalProperties": True}}]
    with pytest.raises(
        ConfigurationError, match=f"in the format '{name}' a call begins with .*, and so may the answer"
    ):
        Tools(any_arguments, form, answer=regex(r"\{.*")).constraint(vocabulary(form))


BACKREFERENCE = {"type": "object", "properties": {"x": {"type": "string", "pattern": r"(a)\1"}}}
NOTHING = {"type": "object", "properties": {"x": False}, "required": ["x"]}


@pytest.mark.parametrize("name", ["hermes", "qwen_coder", "mistral"])
def test_errors_name_the_tool(name: str) -> None:
    form = FORMATS[name]
    some = [*TOOLS, {"name": "bad", "parameters": BACKREFERENCE}]
    with pytest.raises(UnsupportedSchema, match=r"^'pattern' at tools\['bad'\]#/properties/x: a backreference"):
        Tools(some, form).constraint(vocabulary(form))
    some = [*TOOLS, {"name": "bad", "parameters": NOTHING}]
    with pytest.raises(ConfigurationError, match=r"^tools\['bad'\]: no (value|object) satisfies"):
        Tools(some, form).constraint(vocabulary(form))
    with pytest.raises(UnsupportedSchema, match=r"^'pattern' at answer#/properties/x: a backreference"):
        Tools(TOOLS, form, answer=BACKREFERENCE).constraint(vocabulary(form))
