"""Tools in configurations: what is read is what `Tools` makes, and what is written is read as the same."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import logitkit as lk
from logitkit.errors import ConfigurationError, LogitkitError, VocabularyError
from logitkit.json_schema.document import load
from logitkit.languages import json_schema, regex
from logitkit.tools import ToolsConstraint
from tests.tools.turns import TOOLS, tools_of, vocabulary

BYTES = vocabulary(lk.Tools(TOOLS, "hermes").form)
PING = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {}}}}
OWN = {
    "name": "own",
    "call_begin": "<c>",
    "name_end": ":",
    "call_end": "</c>",
    "trigger": "<c>",
    "also": [["<c> ", ":"]],
}


@pytest.mark.parametrize(
    "given",
    [
        [PING],
        {"tools": [PING], "choice": "required"},
        {"tools": [PING, {"name": "b"}], "choice": ["b"], "parallel": False, "format": "qwen_coder"},
        {"tools": [PING], "reasoning": True, "closing": 200},
        {"tools": [PING], "reasoning": 40, "answer": {"type": "integer"}, "max_depth": 4},
        {"tools": [PING], "format": OWN},
        {"tools": [PING], "choice": "required", "preamble": True},
    ],
)
def test_configurations_are_read_and_written(given: Any) -> None:
    config = {"tools": given}
    assert Draft202012Validator(lk.config_schema()).is_valid(config)
    made: Any = lk.from_config(json.loads(json.dumps(config)), BYTES)
    assert isinstance(made, ToolsConstraint)
    written = lk.to_config(made)
    assert lk.from_config(json.loads(json.dumps(written)), BYTES) == made
    arguments = {"tools": given} if isinstance(given, list) else given
    assert lk.to_config(lk.from_config(written, BYTES)) == written
    assert isinstance(written["tools"], list) or written["tools"].keys() <= arguments.keys()


def test_what_tools_compile_has_a_configuration() -> None:
    tools = lk.Tools(TOOLS, "hermes", choice=["ping", "save"])
    constraint = tools.constraint(BYTES)
    written = json.loads(json.dumps(lk.to_config(constraint)))
    assert lk.from_config(written, BYTES) == constraint
    assert [tool["function"]["name"] for tool in written["tools"]["tools"]] == ["get_weather", "ping", "save"]


@pytest.mark.parametrize("answer", [{"type": "integer"}, list[int]])
def test_what_tools_compile_with_an_answer_has_a_configuration(answer: Any) -> None:
    constraint = lk.Tools(TOOLS, answer=answer).constraint(BYTES)
    written = json.loads(json.dumps(lk.to_config(constraint)))
    assert written["tools"]["answer"] == load(answer)
    assert lk.from_config(written, BYTES) == constraint


def test_an_answer_that_is_a_language_has_no_configuration() -> None:
    for answer in (regex("[a-z]+"), json_schema({"type": "integer"}, whitespace="compact")):
        constraint = lk.Tools(TOOLS, answer=answer).constraint(BYTES)
        with pytest.raises(ConfigurationError, match="has no JSON form; give a schema"):
            lk.to_config(constraint)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "lacks 'tools'"),
        ([], "a list that is not empty"),
        (["ping"], "allowed is a tool"),
        ({"tools": [PING], "format": "auto"}, "needs chat_template"),
        ({"tools": [PING], "format": "xml"}, "allowed are 'auto'"),
        ({"tools": [PING], "format": {"name": "own"}}, "lacks one of"),
        ({"tools": [PING], "format": {**OWN, "begin": "x"}}, "unknown key 'begin'"),
        ({"tools": [PING], "format": {**OWN, "also": "x"}}, "allowed is a tuple"),
        ({"tools": [PING], "format": {**OWN, "also": [["x"]]}}, "also is"),
        ({"tools": [PING], "format": {**OWN, "tokens": [5]}}, "tokens is"),
        ({"tools": [PING], "format": {**OWN, "parameter_begin": "x", "arguments": "xml"}}, "begin is 'x'"),
        ({"tools": [PING], "format": {**OWN, "separator": 5}}, "separator is 5"),
        ({"tools": [PING], "choice": "pong"}, "names of tools"),
        ({"tools": [PING], "choice": [5]}, "a string"),
        ({"tools": [PING], "reasoning": 0}, "an integer from 1"),
        ({"tools": [PING], "answer": 5}, "a JSON Schema"),
        ({"tools": [PING, PING]}, "two tools have the name"),
    ],
)
def test_wrong_configurations_are_refused(given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        lk.from_config({"tools": given}, BYTES)


def test_a_vocabulary_without_the_special_tokens_of_a_format_is_refused() -> None:
    with pytest.raises(VocabularyError, match="TOOL_CALLS"):
        tools_of("mistral").constraint(BYTES)


def test_any_json_in_place_of_a_parameter_is_refused_or_read() -> None:
    values: list[Any] = [
        None,
        True,
        0,
        -1,
        1.5,
        "",
        "x",
        "\ud800",
        [],
        [None],
        [[]],
        {},
        {"a": 1},
        [{"name": "a"}],
        10**30,
    ]
    good: dict[str, Any] = {"tools": [PING]}
    markers = [argument.name for argument in fields(lk.ToolFormat)]
    configs = [{**good, name: value} for name in ToolsConstraint.kind.parameters for value in values]
    configs += [{**good, "format": {**OWN, name: value}} for name in markers for value in values]
    refused = 0
    for config in configs:
        with suppress(LogitkitError):
            lk.from_config({"tools": config}, BYTES)
            refused -= 1
        refused += 1
    assert len(configs) // 2 < refused < len(configs)
