"""vLLM's parsers of reasoning and of tool calls, one after the other, on turns that `Tools` allows."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from transformers import AutoTokenizer

import logitkit as lk
from logitkit_adapters.demo import model_dir
from logitkit_adapters.transformers import vocabulary

MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
PARSERS = ["deepseek_r1", "qwen3"]


def get_weather(city: str, days: int = 1) -> None:
    """Tell the weather."""


TOOLS = lk.Tools([get_weather], "hermes", reasoning=True)
CALLS = [lk.ToolCall("get_weather", {"city": 'B"o\nnn', "days": 3}), lk.ToolCall("get_weather", {"city": "}"})]
ANSWERS = ["Hello {there}.", TOOLS.write(CALLS[:1]), "Let me see.\n" + TOOLS.write(CALLS)]


@cache
def tokenizer() -> Any:
    """Return the demo's tokenizer with the special tokens of models that reason."""
    found = AutoTokenizer.from_pretrained(model_dir())
    found.add_special_tokens({"additional_special_tokens": MARKERS})
    return found


def request() -> Any:
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest

    return ChatCompletionRequest(model="demo", messages=[{"role": "user", "content": "?"}], tools=TOOLS.schemas())


def reasoning_parser(name: str) -> Any:
    from vllm.reasoning import ReasoningParserManager

    return ReasoningParserManager.get_reasoning_parser(name)(tokenizer())


def calls_in(content: str) -> list[tuple[str, Any]]:
    """Return the calls that vLLM reads in what follows the reasoning."""
    from vllm.tool_parsers import ToolParserManager

    found = ToolParserManager.get_tool_parser("hermes")(tokenizer()).extract_tool_calls(content, request())
    return [(call.function.name, json.loads(call.function.arguments)) for call in found.tool_calls]


def streamed(name: str, ids: list[int]) -> tuple[str, str]:
    """Return the reasoning and the content that vLLM reads token by token."""
    parser, text, reasoning, content = reasoning_parser(name), "", "", ""
    for number, token in enumerate(ids):
        fresh = tokenizer().decode([token])
        before, at = ids[:number], ids[: number + 1]
        delta = parser.extract_reasoning_streaming(text, text + fresh, fresh, before, at, [token])
        text += fresh
        reasoning += (delta and delta.reasoning) or ""
        content += (delta and delta.content) or ""
    return reasoning, content


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("name", PARSERS)
def test_they_read_what_tools_reads(name: str, answer: str) -> None:
    text = f"<think>\nHm, {{x}}.</think>\n\n{answer}"
    ids = tokenizer().encode(text, add_special_tokens=False)
    turn = TOOLS.parse(ids, vocabulary(tokenizer()))
    assert (turn.outside_at, turn.problem) == (None, None)
    reasoning, content = reasoning_parser(name).extract_reasoning(text, request())
    # The line break belongs to the marker here.
    assert reasoning.removeprefix("\n") == turn.reasoning
    assert calls_in(content) == [(call.name, call.arguments) for call in turn.calls]
    assert streamed(name, ids) == (reasoning, content)


@pytest.mark.parametrize("name", PARSERS)
def test_calls_without_reasoning_are_lost_to_the_parser_of_deepseek_r1(name: str) -> None:
    """It takes all text for reasoning until `</think>`, so a turn needs `"reasoning": true`, as the page says."""
    tools = lk.Tools([get_weather], "hermes", choice="required")
    text = tools.write(CALLS[:1])
    assert tools.constraint(vocabulary(tokenizer())).matches(text)
    reasoning, content = reasoning_parser(name).extract_reasoning(text, request())
    streaming = streamed(name, tokenizer().encode(text, add_special_tokens=False))
    if name == "deepseek_r1":
        assert (reasoning, content) == (text, None)
        assert streaming == (text, "")
    else:
        assert calls_in(content) == [("get_weather", {"city": 'B"o\nnn', "days": 3})]
        assert streaming == ("", text)


def test_streams_need_the_marker_as_a_token() -> None:
    """They look for its id, so a spelled marker is lost; a format that names it as a token does not allow that."""
    head, tail = "<think>\nHm.", "\n\n" + TOOLS.write(CALLS[:1])
    spelled = [
        token for piece in ("<", "/", "think", ">") for token in tokenizer().encode(piece, add_special_tokens=False)
    ]
    parts = [tokenizer().encode(part, add_special_tokens=False) for part in (head, tail)]
    ids = [*parts[0], *spelled, *parts[1]]
    assert TOOLS.parse(ids, vocabulary(tokenizer())).outside_at is None
    assert "<tool_call>" not in streamed("deepseek_r1", ids)[1]
    strict = lk.Tools(TOOLS.tools, replace(TOOLS.form, tokens=("<think>", "</think>")), reasoning=True)
    assert strict.parse(ids, vocabulary(tokenizer())).problem is not None
    ids = tokenizer().encode(f"{head}</think>{tail}", add_special_tokens=False)
    assert strict.parse(ids, vocabulary(tokenizer())).outside_at is None
