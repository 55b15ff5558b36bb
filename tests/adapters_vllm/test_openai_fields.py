"""With LOGITKIT_VLLM_RESPONSE_FORMAT=1, a server reads `response_format`, `tools` and `logitkit` as clients send them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import openai
import pytest

from tests.adapters_vllm import engine, schemas, tool_calls

PROMPT = "The weather in Berlin: "


def response_format(schema: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": True}}


def chat(client: Any, prompt: str = PROMPT, **more: Any) -> Any:
    settings = {"max_tokens": 110, "temperature": 0.0, **more}
    return client.chat.completions.create(model="demo", messages=[{"role": "user", "content": prompt}], **settings)


@pytest.mark.parametrize("name", ["record", "tree", "numbers"])
def test_json_schema(switched: Any, name: str) -> None:
    """Complete within few tokens, which vLLM's own grammar does not promise."""
    given = response_format(schemas.SCHEMAS[name])
    answer = chat(switched, engine.prompt(3), response_format=given, max_tokens=40, temperature=1.0)
    schemas.check(answer.choices[0].message.content, schemas.SCHEMAS[name])


def test_json_object(switched: Any) -> None:
    text = (
        chat(switched, response_format={"type": "json_object"}, temperature=1.2, max_tokens=30)
        .choices[0]
        .message.content
    )
    assert isinstance(json.loads(text), dict)


def test_text_is_not_constrained(switched: Any) -> None:
    plain = chat(switched, max_tokens=20).choices[0].message.content
    assert chat(switched, response_format={"type": "text"}, max_tokens=20).choices[0].message.content == plain


def test_completions_and_streams(switched: Any) -> None:
    body = {"response_format": response_format(schemas.PERSON)}
    settings = {"model": "demo", "prompt": [engine.prompt(3), engine.prompt(1)], "max_tokens": 40, "extra_body": body}
    for choice in switched.completions.create(**settings).choices:
        schemas.check(choice.text, schemas.PERSON)
    texts: dict[int, str] = defaultdict(str)
    for part in switched.completions.create(**settings, stream=True):
        for choice in part.choices:
            texts[choice.index] += choice.text
    assert len(texts) == 2
    for text in texts.values():
        schemas.check(text, schemas.PERSON)


@pytest.mark.parametrize("config", [{"regex": "[0-9]{4}"}, '{"regex": "[0-9]{4}"}'], ids=["object", "json"])
def test_a_configuration_needs_no_extra_arguments(switched: Any, config: Any) -> None:
    answer = chat(switched, extra_body={"logitkit": config}).choices[0].message.content
    assert re.fullmatch("[0-9]{4}", answer)
    completed = switched.completions.create(model="demo", prompt="In ", max_tokens=9, extra_body={"logitkit": config})
    assert re.fullmatch("[0-9]{4}", completed.choices[0].text)
    response = switched.responses.create(
        model="demo", input="In ", max_output_tokens=9, extra_body={"logitkit": config}
    )
    assert re.fullmatch("[0-9]{4}", response.output_text)


def test_a_configuration_joins_the_fields(switched: Any) -> None:
    """Whether it is in the body or in `vllm_xargs`: its bans apply to the text of the schema."""
    given = response_format({"type": "string", "pattern": "^[ab]{6}$"})
    for config in ({"logitkit": {"banned_strings": ["b"]}}, {"vllm_xargs": {"logitkit": '{"banned_strings": ["b"]}'}}):
        found = chat(switched, response_format=given, temperature=1.0, extra_body=config).choices[0].message.content
        assert found == '"aaaaaa"'


STRICT = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in tool_calls.TOOLS]
NAMED = {"type": "function", "function": {"name": "get_weather"}}

# The fields of a request, and the configuration with the same meaning.
REQUESTS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({"tools": tool_calls.TOOLS, "tool_choice": "required"}, {"choice": "required"}),
    (
        {"tools": STRICT, "tool_choice": "required", "parallel_tool_calls": False},
        {"choice": "required", "parallel": False},
    ),
    (
        {"tools": tool_calls.TOOLS, "tool_choice": NAMED, "parallel_tool_calls": False},
        {"choice": "get_weather", "parallel": False},
    ),
    (
        {"tools": STRICT, "parallel_tool_calls": False, "response_format": response_format(schemas.PERSON)},
        {"choice": "auto", "parallel": False},
    ),
    (
        {"tools": tool_calls.TOOLS, "tool_choice": "auto", "response_format": response_format(schemas.PERSON)},
        {"choice": "auto"},
    ),
)


def check_turn(config: dict[str, Any], content: str | None, calls: list[tuple[str, str]]) -> None:
    tool_calls.check_calls(config, [(name, json.loads(arguments)) for name, arguments in calls])
    if not calls:
        schemas.check(content or "", schemas.PERSON)


@pytest.mark.parametrize(("fields", "config"), REQUESTS, ids=lambda value: f"{value}"[-30:])
def test_tools(switched: Any, fields: dict[str, Any], config: dict[str, Any]) -> None:
    """Constrained by logitkit, and read by vLLM's own parser."""
    called = 0
    for temperature in (0.0, 1.0):
        for choice in chat(switched, n=2 if temperature else 1, temperature=temperature, **fields).choices:
            calls = [(one.function.name, one.function.arguments) for one in choice.message.tool_calls or ()]
            check_turn(config, choice.message.content, calls)
            called += bool(calls)
    assert called or config["choice"] == "auto"


@pytest.mark.parametrize(("fields", "config"), REQUESTS, ids=lambda value: f"{value}"[-30:])
def test_tools_of_streams(switched: Any, fields: dict[str, Any], config: dict[str, Any]) -> None:
    calls: dict[int, list[str]] = defaultdict(lambda: ["", ""])
    content, reason = "", ""
    for part in chat(switched, stream=True, temperature=1.0, **fields):
        for choice in part.choices:
            content += choice.delta.content or ""
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or ():
                calls[call.index][0] += call.function.name or ""
                calls[call.index][1] += call.function.arguments or ""
    check_turn(config, content, [(name, arguments) for _, (name, arguments) in sorted(calls.items())])
    # A turn may be complete with the last token that the request allows, which leaves none for EOS.
    assert reason in ("length", "tool_calls" if calls and fields.get("tool_choice") != NAMED else "stop")


def test_tools_of_a_configuration_are_not_read_twice(switched: Any) -> None:
    """Requests that are written for a server without the switch stay as they are."""
    given = {"tools": {**tool_calls.CONFIGURATIONS[3], "closing": 80}}
    choices: list[dict[str, Any]] = [{}, {"tool_choice": "required"}, {"tools": STRICT, "tool_choice": NAMED}]
    for fields in choices:
        for body in ({"logitkit": given}, {"vllm_xargs": {"logitkit": json.dumps(given)}}):
            (call,) = (
                chat(switched, extra_body=body, **{"tools": tool_calls.TOOLS, **fields}).choices[0].message.tool_calls
            )
            tool_calls.check_calls(given["tools"], [(call.function.name, json.loads(call.function.arguments))])


def test_an_agent_reads_the_result_and_answers(switched: Any) -> None:
    message = chat(switched, tools=tool_calls.TOOLS, tool_choice=NAMED).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"}
    answer = switched.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": PROMPT}, {**message.to_dict(), "content": ""}, result],
        tools=tool_calls.TOOLS,
        tool_choice="none",
        response_format=response_format(schemas.PERSON),
        max_tokens=60,
    )
    assert not answer.choices[0].message.tool_calls
    schemas.check(answer.choices[0].message.content, schemas.PERSON)


TAG = {"type": "structural_tag", "format": {"type": "const_string", "value": "a"}}
GRAMMAR = {"structured_outputs": {"regex": "[a-f]{4,9}"}}
WRONG = response_format({"type": "object", "properties": {"a": {"type": "strin"}}})
BAD: tuple[tuple[dict[str, Any], str], ...] = (
    ({"response_format": WRONG}, "'type' at #/properties/a is 'strin'"),
    ({"response_format": response_format({"const": "long " * 50}), "max_tokens": 5}, "the shortest text"),
    ({"extra_body": {"logitkit": {"regx": "a"}}}, "did you mean 'regex'?"),
    ({"extra_body": {"logitkit": 5}}, "logitkit is a number"),
    ({"extra_body": {"logitkit": "{"}}, "not valid JSON"),
    ({"extra_body": {"logitkit": "x" * 1_100_000}}, "allowed are up to"),
    ({"extra_body": {"logitkit": {"top_k": 5}, "vllm_xargs": {"logitkit": '{"top_k": 5}'}}}, "give one of them"),
    (
        {"response_format": response_format({}), "extra_body": {"logitkit": {"json_schema": True}}},
        "'logitkit' has 'json_schema', and 'response_format' means the same here",
    ),
    ({"response_format": response_format({}), "extra_body": {"logitkit": {"chain": []}}}, "chain"),
    ({"response_format": response_format(schemas.PERSON), "extra_body": GRAMMAR}, "Give one of them"),
    ({"response_format": response_format(schemas.PERSON), "extra_body": {"use_beam_search": True}}, "use_beam_search"),
    ({"tools": [*tool_calls.TOOLS, tool_calls.TOOLS[0]]}, "two tools have the name 'get_weather'"),
    (
        {
            "tools": tool_calls.TOOLS,
            "response_format": response_format({}),
            "extra_body": {"logitkit": {"tools": tool_calls.TOOLS}},
        },
        "give the schema as 'answer' of these tools",
    ),
    ({"extra_body": {"logitkit": {"regex": "a"}, "response_format": TAG}}, "Give one of them"),
    ({"tools": STRICT, "extra_body": {"response_format": TAG}}, "Give one of them"),
    ({"extra_body": {"logitkitt": {"regex": "a"}}}, "which vLLM ignores"),
)


@pytest.mark.parametrize(("fields", "message"), BAD, ids=lambda value: f"{value}"[:40])
def test_bad_fields_are_bad_requests(switched: Any, fields: dict[str, Any], message: str) -> None:
    """Which harm no request that runs beside them."""
    with ThreadPoolExecutor(2) as pool:
        others = [pool.submit(chat, switched, response_format=response_format(schemas.PERSON)) for _ in range(2)]
        with pytest.raises(openai.BadRequestError) as caught:
            chat(switched, **fields)
        assert message in cast("dict[str, Any]", caught.value.body)["message"]
        with pytest.raises(openai.APIError, match=re.escape(message)):
            list(chat(switched, stream=True, **fields))
        for other in others:
            schemas.check(other.result().choices[0].message.content, schemas.PERSON)


def test_many_clients_at_once(switched: Any) -> None:
    """Some of which go away in the middle of their answers."""

    def ask(number: int) -> str | None:
        schema = {"type": "string", "pattern": f"^[a-z]{{{number % 7 + 1}}}-{number}$"}
        more: dict[str, Any] = {} if number % 5 == 4 else {"response_format": response_format(schema)}
        if number % 7 == 6:
            with chat(switched, stream=True, **more) as stream:
                next(iter(stream))
            return None
        found: str = chat(switched, engine.prompt(number), **more).choices[0].message.content
        return found

    with ThreadPoolExecutor(30) as pool:
        for number, text in enumerate(pool.map(ask, range(30))):
            if number % 5 != 4 and text is not None:
                assert re.fullmatch(f'"[a-z]{{{number % 7 + 1}}}-{number}"', text)


def test_without_the_switch_vllm_reads_the_fields(client: Any) -> None:
    found = chat(client, response_format=response_format({"const": "yes"})).choices[0].message.content
    assert json.loads(found) == "yes"
    with pytest.raises(openai.BadRequestError, match="the field 'logitkit', which vLLM ignores"):
        chat(client, extra_body={"logitkit": {"regex": "a"}})
