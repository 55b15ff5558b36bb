"""Requests of OpenAI's client to the real servers. The client and other packages judge the answers."""

from __future__ import annotations

import http.client
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlparse

import jsonschema
import openai
import pytest
import torch

from tests.serving.conftest import ENGINES
from tests.serving.servers import Server

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}}, "required": ["city"]}
TOOLS: Any = [
    {"type": "function", "function": {"name": "get_weather", "parameters": CITY}},
    {"type": "function", "function": {"name": "save", "parameters": PERSON}},
]
SCHEMAS = {"get_weather": CITY, "save": PERSON}


def streamed(server: Server, **asked: Any) -> Any:
    """Return the completion that OpenAI's own client puts together from a stream."""
    said = [{"role": "user", "content": "Answer in JSON: "}]
    with server.client.chat.completions.stream(model=server.model, messages=said, temperature=0, **asked) as stream:
        for _ in stream:
            pass
        return stream.get_final_completion()


def plain_text(prompt: str, tokens: int) -> str:
    """Return what transformers generates with the small model."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from logitkit_adapters.demo import model_dir

    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    model: Any = AutoModelForCausalLM.from_pretrained(model_dir())
    ids = tokenizer(prompt, return_tensors="pt")
    with torch.no_grad():
        found = model.generate(**ids, max_new_tokens=tokens, do_sample=False)[0, ids["input_ids"].shape[1] :]
    return str(tokenizer.decode(found, skip_special_tokens=True))


def test_an_answer_follows_its_schema(server: Server) -> None:
    answer = server.chat(response_format=FORMAT, max_tokens=60).choices[0]
    jsonschema.validate(json.loads(answer.message.content), PERSON)
    assert answer.finish_reason == "stop"
    in_parts = streamed(server, response_format=FORMAT, max_tokens=60).choices[0]
    assert in_parts.message.content == answer.message.content
    assert in_parts.finish_reason == "stop"


@pytest.mark.parametrize("tokens", [8, 30])
def test_a_json_object_is_complete_within_its_tokens(server: Server, tokens: int) -> None:
    answer = server.chat(response_format={"type": "json_object"}, max_tokens=tokens)
    assert isinstance(json.loads(answer.choices[0].message.content), dict)
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens <= tokens


def test_a_schema_that_needs_more_tokens_is_cut_off(server: Server) -> None:
    answer = server.chat(response_format=FORMAT, max_tokens=3).choices[0]
    assert answer.finish_reason == "length"
    assert answer.message.content.startswith('{"')


def test_a_configuration(server: Server) -> None:
    config = {"regex": r" [0-9]{4}-[0-9]{2}-[0-9]{2}", "temperature": 0.7}
    for given in (config, json.dumps(config)):
        text = server.chat("Born on", max_tokens=40, extra_body={"logitkit": given}).choices[0].message.content
        assert re.fullmatch(r" [0-9]{4}-[0-9]{2}-[0-9]{2}", text)


@pytest.mark.parametrize("choice", ["required", "get_weather", "save"])
def test_required_calls(server: Server, choice: str) -> None:
    given: Any = choice if choice == "required" else {"type": "function", "function": {"name": choice}}
    asked: Any = {"tools": TOOLS, "tool_choice": given, "max_tokens": 80}
    whole = server.chat(**asked).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert whole.message.content is None
    assert whole.message.tool_calls
    for call in whole.message.tool_calls:
        assert choice in ("required", call.function.name)
        jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])
    parts = streamed(server, **asked).choices[0]
    assert parts.finish_reason == "tool_calls"
    written = [(call.function.name, call.function.arguments) for call in parts.message.tool_calls]
    assert written == [(call.function.name, call.function.arguments) for call in whole.message.tool_calls]
    assert len({call.id for call in parts.message.tool_calls}) == len(written)


def test_arguments_come_in_parts(server: Server) -> None:
    said = [{"role": "user", "content": "x"}]
    stream = server.client.chat.completions.create(
        model=server.model, messages=said, tools=TOOLS, tool_choice="required", max_tokens=80, stream=True
    )
    deltas = [chunk.choices[0].delta for chunk in stream if chunk.choices]
    calls = [call for delta in deltas for call in delta.tool_calls or []]
    assert calls[0].id
    assert calls[0].function.name in SCHEMAS
    assert sum(bool(call.function.arguments) for call in calls) > 3
    assert all(not delta.content for delta in deltas)


def test_calls_are_optional_and_may_be_forbidden(server: Server) -> None:
    for choice in ("auto", "none"):
        message = server.chat("The price of", tools=TOOLS, tool_choice=choice, max_tokens=20).choices[0].message
        assert not message.tool_calls
        assert message.content
    answer = server.chat(tools=TOOLS, tool_choice="none", response_format=FORMAT, max_tokens=60).choices[0].message
    jsonschema.validate(json.loads(answer.content), PERSON)


def test_one_call_at_a_time(server: Server) -> None:
    asked: Any = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    assert len(server.chat(max_tokens=300, **asked).choices[0].message.tool_calls) == 1


def test_a_plain_request_is_the_engines_own(server: Server) -> None:
    answer = server.chat("The price of", max_tokens=16).choices[0]
    assert answer.message.content.strip() == plain_text("The price of", 16).strip()


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_a_stop_never_leaks(server: Server, endpoint: str) -> None:
    text = plain_text("The price of", 24)

    def create(**asked: Any) -> Any:
        asked = {"model": server.model, "max_tokens": 24, "temperature": 0, **asked}
        if endpoint == "completions":
            return server.client.completions.create(prompt="The price of", **asked)
        return server.client.chat.completions.create(messages=[{"role": "user", "content": "The price of"}], **asked)

    for begin, length in ((3, 1), (6, 5), (9, 3)):
        stop = text[begin : begin + length]
        expected = text[: text.index(stop)]
        one = create(stop=[stop, "§§§"]).choices[0]
        assert (one.message.content if endpoint == "chat" else one.text) == expected
        assert one.finish_reason == "stop"
        chunks = [chunk.choices[0] for chunk in create(stop=stop, stream=True) if chunk.choices]
        pieces = [(chunk.delta.content if endpoint == "chat" else chunk.text) or "" for chunk in chunks]
        assert "".join(pieces) == expected
        assert chunks[-1].finish_reason == "stop"


@pytest.mark.parametrize("server", [one for one in ENGINES if one.id == "llama-cpp"], indirect=True)
def test_a_completion_of_llama_cpp_without_a_limit(server: Server) -> None:
    """It has 16 tokens if the request says nothing, and as many as the context allows with null."""

    def text(**asked: Any) -> Any:
        schema = {"type": "string", "pattern": "^[ a-z]{0,60}$"}
        body = {"response_format": {"type": "json_schema", "json_schema": {"name": "text", "schema": schema}}}
        found = server.client.completions.create(
            model=server.model, prompt="A:", temperature=0, extra_body=body, **asked
        )
        return found.choices[0].text

    assert re.fullmatch('"[ a-z]{0,59}"', text())
    assert re.fullmatch('"[ a-z]{60}"', text(max_tokens=None))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"response_format": {"type": "xml"}}, "response_format is {'type': 'xml'}; allowed are"),
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "no"}}}}, "'no'"),
    ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "pay"}}}, "'pay'"),
    ({"tools": [{"type": "function", "function": {}}]}, "tools must be a list of functions"),
    ({"tool_choice": "required"}, "there are no tools"),
    ({"stop": [""]}, "stop is ['']"),
    ({"stop": "x" * 60_000}, "stop is too long; allowed are texts of about 50000 bytes together"),
    ({"extra_body": {"logitkit": {"regx": "a"}}}, "did you mean 'regex'"),
    (
        {"extra_body": {"logitkit": {"guidance": 1.5}}},
        "Guidance reads the logits of a second pass, which a server does",
    ),
    ({"extra_body": {"logitkit": {"regex": "(a|b)*a(a|b){40}"}}}, "ask the operator"),
    ({"extra_body": {"logitkit": {"json_schema": {}}}, "response_format": FORMAT}, "leave one of them out"),
    ({"extra_body": {"logitkit": {"choice": ["x" * 2**20]}}}, "characters; allowed are 1048576"),
]


def test_refused_requests_disturb_no_others(server: Server) -> None:
    alone = server.chat(response_format=FORMAT, max_tokens=60).choices[0].message.content

    def refused(case: tuple[dict[str, Any], str]) -> str:
        with pytest.raises(openai.BadRequestError) as caught:
            server.chat(max_tokens=8, **case[0])
        assert caught.value.body["type"] == "invalid_request_error"  # type: ignore[index]
        return str(caught.value.body["message"])  # type: ignore[index]

    def served(_: int) -> str:
        return str(server.chat(response_format=FORMAT, max_tokens=60).choices[0].message.content)

    with ThreadPoolExecutor(8) as pool:
        texts, messages = pool.map(served, range(4)), pool.map(refused, REFUSED)
        assert [text == alone for text in texts] == [True] * 4
        for message, (_, expected) in zip(messages, REFUSED, strict=True):
            assert expected in message


def test_parallel_requests_have_their_own_constraints(server: Server) -> None:
    patterns = [rf"[a-{last}]{{2,6}}" for last in "cdefgh"]

    def text(pattern: str) -> str:
        asked = server.chat("A word:", max_tokens=10, temperature=1, extra_body={"logitkit": {"regex": pattern}})
        return str(asked.choices[0].message.content)

    with ThreadPoolExecutor(len(patterns)) as pool:
        for pattern, found in zip(patterns, pool.map(text, patterns), strict=True):
            assert re.fullmatch(pattern, found), (pattern, found)


def test_a_client_that_leaves(server: Server) -> None:
    config = {"regex": "[a-z ]{1500}"}
    for _ in range(3):
        said = [{"role": "user", "content": "x"}]
        with server.client.chat.completions.create(
            model=server.model, messages=said, max_tokens=1600, stream=True, extra_body={"logitkit": config}
        ) as stream:
            next(iter(stream))
    begin = time.monotonic()
    assert server.chat(max_tokens=4, extra_body={"logitkit": {"choice": ["yes", "no"]}})
    assert time.monotonic() - begin < 20


def test_nothing_more_is_generated_for_a_client_that_leaves(server: Server) -> None:
    """Also without a stream, where nothing is sent that could fail."""

    def seconds(client: Any, tokens: int) -> float:
        begin = time.monotonic()
        client.chat.completions.create(
            model=server.model,
            messages=[{"role": "user", "content": "x"}],
            max_tokens=tokens,
            extra_body={"logitkit": {"regex": f"[a-z ]{{{tokens},}}"}},
        )
        return time.monotonic() - begin

    seconds(server.client, 400)  # compiles it
    whole = seconds(server.client, 400)
    hasty = server.client.with_options(timeout=whole / 8)
    for _ in range(6):
        with pytest.raises(openai.APITimeoutError):
            seconds(hasty, 400)
    assert seconds(server.client, 2) < 3 * whole


def test_a_body_that_is_too_large(server: Server) -> None:
    where = urlparse(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    connection.putrequest("POST", "/v1/chat/completions")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert "allowed are up to" in json.loads(answer.read())["error"]["message"]
    connection.close()


def test_a_body_that_is_nested_too_deeply(server: Server) -> None:
    where = urlparse(server.url)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=30)
    body = '{"model": "x", "messages": [], "logitkit": ' + "[" * 50_000 + "]" * 50_000 + "}"
    connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.status == 400
    assert "nested too deeply" in json.loads(answer.read())["error"]["message"]
    connection.close()


@pytest.mark.parametrize("content", ["sunny", [{"type": "text", "text": "sun"}, {"type": "text", "text": "ny"}]])
@pytest.mark.parametrize("nulls", [True, False])
def test_a_conversation_continues_after_a_tool(server: Server, content: Any, nulls: bool) -> None:
    """As clients send it: without content beside the calls, or with null."""
    asked: Any = {"model": server.model, "tools": TOOLS, "max_tokens": 60, "temperature": 0}
    said: list[Any] = [{"role": "user", "content": "Weather? "}]
    called = server.client.chat.completions.create(messages=said, tool_choice="required", **asked).choices[0].message
    said += [{**called.model_dump(exclude_none=True), **({"content": None} if nulls else {})}]
    said += [{"role": "tool", "tool_call_id": call.id, "content": content} for call in called.tool_calls]
    called = server.client.chat.completions.create(messages=said, tool_choice="required", **asked).choices[0].message
    assert called.tool_calls
    answer = server.client.chat.completions.create(
        messages=said, response_format=FORMAT, **asked | {"tools": openai.omit}
    )
    jsonschema.validate(json.loads(answer.choices[0].message.content), PERSON)


@pytest.mark.parametrize("left_out", [{}, {"parameters": None, "description": None}])
def test_a_tool_without_parameters_or_description(server: Server, left_out: dict[str, Any]) -> None:
    asked: Any = {"tools": [{"type": "function", "function": {"name": "now", **left_out}}], "max_tokens": 40}
    (call,) = server.chat(tool_choice="required", **asked).choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("now", {})
    assert server.chat(tool_choice="none", **asked).choices[0].message.content is not None


def test_a_developer_may_say_what_a_system_says(server: Server) -> None:
    """OpenAI's API has both roles."""
    said: list[Any] = [{"role": "developer", "content": "Be brief. "}, {"role": "user", "content": "Answer in JSON: "}]
    asked: Any = {
        "model": server.model,
        "messages": said,
        "max_tokens": 60,
        "temperature": 0,
        "response_format": FORMAT,
    }
    jsonschema.validate(json.loads(server.client.chat.completions.create(**asked).choices[0].message.content), PERSON)
