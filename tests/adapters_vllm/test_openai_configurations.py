"""The fields of OpenAI's API without a server: their configuration, the grammar of vLLM, and vLLM's parsers."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest

import logitkit as lk
from logitkit_adapters.vllm.openai_fields import FORMATS, PARSERS, _reading_fields, take_openai_fields
from tests.adapters_vllm import schemas, tool_calls
from tests.adapters_vllm.test_openai_fields import NAMED, STRICT, response_format

SWITCH = "LOGITKIT_VLLM_RESPONSE_FORMAT"


@pytest.fixture(autouse=True)
def switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")


def request(**fields: Any) -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return ChatCompletionRequest(**{"model": "demo", "messages": [{"role": "user", "content": "?"}], **fields})


def parser_class(name: str) -> Any:
    from vllm.tool_parsers import ToolParserManager

    return ToolParserManager.get_tool_parser(name)


def renderer(parser: str | None = "hermes", reasoning: Any = None, enabled: bool = True) -> Any:
    found = None if parser is None else parser_class(parser)
    return SimpleNamespace(
        parser=SimpleNamespace(tool_parser_cls=found, reasoning_parser_cls=reasoning), enable_auto_tools=enabled
    )


@cache
def tokenizer() -> Any:
    from transformers import AutoTokenizer

    from logitkit_adapters.demo import model_dir

    found = AutoTokenizer.from_pretrained(model_dir())
    named = {token for name in {*FORMATS.values()} for token in lk.Tools(tool_calls.TOOLS, name).form.tokens}
    more = ["<tool_call>", "</tool_call>", "<think>", "</think>", "<|python_tag|>"]
    found.add_special_tokens({"additional_special_tokens": sorted({*named, *more})})
    return found


def rendered(fields: dict[str, Any], by: Any) -> Any:
    """Render a chat, in which vLLM's own parser adds its grammar, and return its sampling parameters."""
    from vllm.parser.parser_manager import ParserManager

    made = request(**fields)

    async def preprocess_chat(self: Any, request: Any) -> None:
        parser = ParserManager.get_parser(tool_parser_name="hermes", enable_auto_tools=True)
        parser(tokenizer(), request.tools).adjust_request(request)

    asyncio.run(_reading_fields(preprocess_chat)(by, made))
    return made.to_sampling_params(100, {})


CASES: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"tools": STRICT, "tool_choice": "required"}, {"choice": "required", "parallel": True}),
    ({"tools": STRICT, "tool_choice": NAMED}, {"choice": "get_weather", "parallel": True}),
    (
        {"tools": STRICT, "parallel_tool_calls": False, "response_format": response_format(schemas.PERSON)},
        {"choice": "auto", "parallel": False, "answer": schemas.PERSON},
    ),
)


@pytest.mark.parametrize(("fields", "config"), CASES, ids=lambda value: f"{value}"[-30:])
def test_the_grammar_of_vllm_is_removed(
    fields: dict[str, Any], config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = rendered(fields, renderer())
    tools = {"tools": tool_calls.TOOLS, "format": "hermes", "closing": True, **config}
    for tool in (tools["tools"], json.loads(found.extra_args["logitkit"])["tools"]["tools"]):
        assert [one["function"]["name"] for one in tool] == list(tool_calls.ARGUMENTS)
    given = json.loads(found.extra_args["logitkit"])["tools"]
    assert {name: given[name] for name in given if name != "tools"} == {
        name: tools[name] for name in tools if name != "tools"
    }
    assert [one["function"]["parameters"] for one in given["tools"]] == [*tool_calls.ARGUMENTS.values()]
    assert found.structured_outputs is None
    monkeypatch.setenv(SWITCH, "off")
    untouched = rendered(fields, renderer())
    assert untouched.extra_args is None
    assert untouched.structured_outputs is not None


def test_a_schema_is_never_a_grammar_of_vllm() -> None:
    found = rendered({"response_format": response_format(schemas.PERSON)}, renderer(None))
    assert json.loads(found.extra_args["logitkit"]) == {"json_schema": {"schema": schemas.PERSON, "closing": True}}
    assert found.structured_outputs is None


def test_tools_that_are_not_offered_leave_the_schema() -> None:
    fields = {"tools": STRICT, "tool_choice": "none", "response_format": {"type": "json_object"}}
    found = rendered(fields, renderer())
    assert json.loads(found.extra_args["logitkit"]) == {"json_schema": {"schema": {"type": "object"}, "closing": True}}


def test_another_grammar_stays_and_is_refused_with_a_constraint() -> None:
    found = rendered({"structured_outputs": {"regex": "a"}, "response_format": response_format({})}, renderer(None))
    assert found.structured_outputs.regex == "a"
    assert "logitkit" in found.extra_args


CALLED = {"tools": tool_calls.TOOLS, "tool_choice": "required"}
CLOSED: tuple[tuple[dict[str, Any] | None, dict[str, Any], str], ...] = (
    ({"parser": None}, CALLED, "it reads no tool calls; start it with --enable-auto-tool-choice"),
    ({"enabled": False}, CALLED, "start it with --enable-auto-tool-choice and --tool-call-parser"),
    ({"parser": "pythonic"}, CALLED, "no format for this server's --tool-call-parser (PythonicToolParser)"),
    ({"reasoning": object}, {"response_format": response_format({})}, "this server has a --reasoning-parser"),
    ({"reasoning": object}, CALLED, "this server has a --reasoning-parser"),
    (None, {"response_format": response_format({})}, "cannot read in chats of this model (gpt-oss)"),
    (None, CALLED, "cannot read in chats of this model (gpt-oss)"),
)


@pytest.mark.parametrize(("server", "fields", "message"), CLOSED, ids=lambda value: f"{value}"[:30])
def test_what_cannot_be_constrained_is_refused(
    server: dict[str, Any] | None, fields: dict[str, Any], message: str
) -> None:
    by = None if server is None else renderer(**server)
    from vllm.exceptions import VLLMValidationError

    with pytest.raises(VLLMValidationError) as caught:
        take_openai_fields(request(**fields), by)
    assert message in str(caught.value)
    # A configuration says itself what it constrains.
    for config, more in (({"regex": "a"}, {}), ({"tools": {"tools": tool_calls.TOOLS, "reasoning": True}}, CALLED)):
        free = request(logitkit=config, **more)
        assert take_openai_fields(free, by)
        assert json.loads(free.vllm_xargs["logitkit"]) == config


def test_calls_that_vllm_would_not_read_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.exceptions import VLLMValidationError

    monkeypatch.setattr(parser_class("hermes"), "supports_required_and_named", True)
    with pytest.raises(VLLMValidationError, match="VLLM_ENFORCE_STRICT_TOOL_CALLING=0"):
        take_openai_fields(request(**CALLED), renderer())
    assert take_openai_fields(request(tools=tool_calls.TOOLS), renderer())


CALLS = [lk.ToolCall("find", {"name": "Anna", "tags": ["a", "b"]}), lk.ToolCall("stop", {})]


@pytest.mark.parametrize("name", PARSERS.replace(" and ", ", ").split(", "))
def test_the_parsers_of_vllm_read_what_the_formats_write(name: str) -> None:
    parser = parser_class(name)
    form = FORMATS[parser.__name__]
    # Called by name, the parser of a forced call must be the same.
    assert not parser.supports_required_and_named
    tools = lk.Tools(tool_calls.TOOLS, form)
    for calls in (CALLS[:1], CALLS[1:], *([CALLS] if form != "llama3_json" else [])):
        text = tools.write(calls)
        asked = request(tools=tool_calls.TOOLS)
        found = parser(tokenizer(), asked.tools).extract_tool_calls(text, asked)
        read = [(one.function.name, json.loads(one.function.arguments)) for one in found.tool_calls]
        assert read == [(call.name, call.arguments) for call in calls], text
