"""Tool calls in vLLM: in its engines, and in a server beside its own parser of tool calls."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from tests.adapters_vllm import engine, schemas, tool_calls
from tests.adapters_vllm.test_v2 import DRAFTS, SMALL, V2

REQUESTS = tool_calls.requests(22)

# The interpreter of the kernels is slow.
FEW = REQUESTS[:11]


@pytest.fixture(scope="module")
def drafted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The requests at once, with drafts, in a cache that is too small for them."""
    out = tmp_path_factory.mktemp("drafted") / "out.json"
    return engine.run_apart([FEW], out, plugin=True, settings={**DRAFTS, **SMALL}, environment=V2)


@pytest.mark.parametrize("number", range(len(FEW)))
def test_each_output_is_the_one_that_was_asked_for(drafted: Any, number: int) -> None:
    from tests.adapters.demo import vocabulary

    found = drafted["batches"][0][number]
    samples = [found, *found["others"]]
    assert len(samples) == REQUESTS[number][1]["n"]
    for one in samples:
        tool_calls.check(number, one["text"], one["tokens"], vocabulary())


def test_requests_had_drafts_and_were_preempted(drafted: Any) -> None:
    assert drafted["v2"]
    assert drafted["accepted"] > 20
    assert drafted["preemptions"] > 4
    assert len(drafted["resumptions"]) > 4


def test_tool_calls_in_v1(llm: Any) -> None:
    from tests.adapters.demo import vocabulary

    # The cache of the engine is too small for all requests at once. Its counters may be those of another engine by now.
    answers = engine.answers(llm, REQUESTS)
    for number, answer in enumerate(answers):
        assert len(answer.outputs) == REQUESTS[number][1]["n"]
        for output in answer.outputs:
            tool_calls.check(number, output.text, list(output.token_ids), vocabulary())


PROMPT = "The weather in Berlin: "


def chat(client: Any, config: Any, prompt: str = PROMPT, **more: Any) -> Any:
    settings = {"max_tokens": 110, "temperature": 0.0, "tools": tool_calls.TOOLS, **more}
    given = config if isinstance(config, str) else json.dumps(config)
    return client.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": prompt}],
        extra_body={"vllm_xargs": {"logitkit": given}},
        **settings,
    )


CHOICES = [config for config in tool_calls.CONFIGURATIONS if config["choice"] not in ("auto", "none")]


def check_message(config: Any, message: Any) -> None:
    """Assert that the server has read the calls of a configuration."""
    calls = message.tool_calls or ()
    tool_calls.check_calls(config, [(call.function.name, json.loads(call.function.arguments)) for call in calls])


@pytest.mark.parametrize("config", CHOICES, ids=lambda config: f"{config['choice']}")
def test_vllm_reads_the_calls(client: Any, config: Any) -> None:
    choice = chat(client, {"tools": config}).choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    check_message(config, choice.message)


@pytest.mark.parametrize("config", CHOICES, ids=lambda config: f"{config['choice']}")
def test_vllm_reads_the_calls_of_streams(client: Any, config: Any) -> None:
    calls: dict[tuple[int, int], list[str]] = defaultdict(lambda: ["", ""])
    ends: dict[int, str] = {}
    parts = 0
    # Otherwise, a sample may be as long as the request allows, and ends as "length".
    for part in chat(client, {"tools": {**config, "closing": 100}}, stream=True, n=2, temperature=1.0):
        for choice in part.choices:
            assert not choice.delta.content
            for call in choice.delta.tool_calls or ():
                found = calls[choice.index, call.index]
                found[0] += call.function.name or ""
                found[1] += call.function.arguments or ""
                parts += 1
            if choice.finish_reason:
                ends[choice.index] = choice.finish_reason
    assert parts >= 4  # a name and arguments of each sample, or more
    assert ends == {0: "tool_calls", 1: "tool_calls"}
    for index in ends:
        of_sample = [found for (sample, _), found in sorted(calls.items()) if sample == index]
        tool_calls.check_calls(config, [(name, json.loads(arguments)) for name, arguments in of_sample])


def test_several_samples(client: Any) -> None:
    config = tool_calls.CONFIGURATIONS[0]
    answer = chat(client, {"tools": config}, n=4, temperature=1.2)
    assert len(answer.choices) == 4
    for choice in answer.choices:
        check_message(config, choice.message)


def test_an_answer_is_content(client: Any) -> None:
    config = tool_calls.CONFIGURATIONS[4]
    for choice in chat(client, {"tools": config}, n=4, temperature=1.0).choices:
        check_message(config, choice.message)
        if not choice.message.tool_calls:
            schemas.check(choice.message.content, schemas.PERSON)


def test_an_agent_calls_reads_the_result_and_answers(client: Any) -> None:
    (call,) = chat(client, {"tools": tool_calls.CONFIGURATIONS[3]}).choices[0].message.tool_calls
    city = json.loads(call.function.arguments)["city"]
    config = {"tools": tool_calls.TOOLS, "choice": "none", "answer": schemas.PERSON, "closing": True}
    message = chat(client, {"tools": config}, f"{PROMPT}rain in {city}. Who asks? ").choices[0].message
    assert not message.tool_calls
    schemas.check(message.content, schemas.PERSON)


def test_a_structural_tag_is_content(client: Any) -> None:
    """It is not in the format of the server's parser."""
    from tests.adapters.demo import vocabulary

    (number, *_) = (n for n, config in enumerate(tool_calls.CONFIGS) if config == tool_calls.TAG)
    answer = chat(client, tool_calls.TAG).choices[0]
    assert not answer.message.tool_calls
    tool_calls.check(number, answer.message.content, [], vocabulary())


WRONG = [
    ({"tools": {"tools": []}}, "config['tools']['tools'] is []; allowed is a list that is not empty"),
    ({"tools": {"tools": tool_calls.TOOLS, "choice": "get_wether"}}, "choice is 'get_wether'; allowed are"),
    ({"tools": {"tools": tool_calls.TOOLS, "format": "hermez"}}, "hermez"),
    ({"tools": {"tools": [*tool_calls.TOOLS, tool_calls.TOOLS[0]]}}, "two tools have the name 'get_weather'"),
    ({"structural_tag": {"type": "structural_tag", "format": {"type": "tagg"}}}, "tagg"),
]


@pytest.mark.parametrize(("config", "message"), WRONG, ids=lambda value: f"{value}"[-40:])
def test_wrong_tools_are_bad_requests(client: Any, config: Any, message: str) -> None:
    """Which harm no request that runs beside them."""
    import openai

    right = tool_calls.CONFIGURATIONS[3]
    with ThreadPoolExecutor(3) as pool:
        others = [pool.submit(chat, client, {"tools": right}) for _ in range(2)]
        with pytest.raises(openai.BadRequestError) as caught:
            chat(client, config)
        assert message in cast("dict[str, Any]", caught.value.body)["message"]
        with pytest.raises(openai.APIError, match=re.escape(message)):
            list(chat(client, config, stream=True))
        for other in others:
            check_message(right, other.result().choices[0].message)


NAMED = {"type": "function", "function": {"name": "get_weather"}}
STRICT = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in tool_calls.TOOLS]


@pytest.mark.parametrize(
    "own", [{"tool_choice": "required"}, {"tool_choice": NAMED}, {"parallel_tool_calls": False}, {"tools": STRICT}]
)
def test_calls_that_vllm_constrains_itself_are_refused(client: Any, own: Any) -> None:
    import openai

    with pytest.raises(openai.BadRequestError, match="tool_choice"):
        chat(client, {"tools": tool_calls.CONFIGURATIONS[0]}, **own)


NOTE = "a</tool_call>b"


def test_vllm_does_not_read_strings_with_the_end_marker(client: Any) -> None:
    """Their calls are in the content, which `Tools.parse` reads; the page says so."""
    import logitkit as lk

    schema = {"type": "object", "properties": {"note": {"const": NOTE}}, "required": ["note"]}
    note = {"type": "function", "function": {"name": "note", "parameters": schema}}
    config = {"tools": [note], "choice": "required", "parallel": False, "closing": True}
    message = chat(client, {"tools": config}, tools=[note]).choices[0].message
    assert not message.tool_calls
    (call,) = lk.Tools([note], choice="required", parallel=False).parse(message.content).calls
    assert (call.name, call.arguments) == ("note", {"note": NOTE})
    parts = chat(client, {"tools": config}, tools=[note], stream=True)
    deltas = [call for part in parts for choice in part.choices for call in choice.delta.tool_calls or ()]
    streamed = "".join(call.function.arguments or "" for call in deltas)
    with pytest.raises(ValueError, match="Unterminated string"):
        json.loads(streamed)
