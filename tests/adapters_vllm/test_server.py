"""A real OpenAI-compatible server, in a process of its own."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from tests.adapters_vllm import engine, schemas


def complete(client: Any, config: str | None, number: int = 0, **more: Any) -> Any:
    extra = {} if config is None else {"extra_body": {"vllm_xargs": {"logitkit": config}}}
    settings = {"max_tokens": 60, "temperature": 0.0, **more}
    return client.completions.create(model="demo", prompt=engine.prompt(number), **settings, **extra)


def test_completion(client: Any) -> None:
    text = complete(client, r'{"regex": "\\d{4}-\\d{2}-\\d{2}", "repetition_penalty": 1.1}').choices[0].text
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", text)


def test_several_completions_of_one_prompt(client: Any) -> None:
    answer = complete(client, '{"regex": "[a-z]{4,12}"}', n=4, temperature=1.0)
    assert len(answer.choices) == 4
    assert all(re.fullmatch("[a-z]{4,12}", choice.text) for choice in answer.choices)


def test_chat(client: Any) -> None:
    answer = client.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": "Is the sky blue? "}],
        max_tokens=20,
        extra_body={"vllm_xargs": {"logitkit": '{"choice": ["yes", "no"]}'}},
    )
    assert answer.choices[0].message.content in {"yes", "no"}


def test_stream(client: Any) -> None:
    parts = list(complete(client, '{"regex": "[0-9](,[0-9]){9}"}', stream=True))
    assert len(parts) > 3
    assert re.fullmatch("[0-9](,[0-9]){9}", "".join(part.choices[0].text for part in parts if part.choices))


@pytest.mark.parametrize("name", schemas.SCHEMAS)
def test_json_schema(client: Any, name: str) -> None:
    """As `response_format` would have it, but for the name of the argument."""
    config = json.dumps({"json_schema": {"schema": schemas.SCHEMAS[name], "closing": True}})
    answer = client.chat.completions.create(
        model="demo",
        messages=[{"role": "user", "content": engine.prompt(3)}],
        max_tokens=40,
        temperature=0.0,
        extra_body={"vllm_xargs": {"logitkit": config}},
    )
    schemas.check(answer.choices[0].message.content, schemas.SCHEMAS[name])


def test_a_schema_closes_within_what_is_left_of_the_context(client: Any) -> None:
    """The server counts the tokens of a request that names no number of them."""
    config = json.dumps({"json_schema": {"schema": schemas.SCHEMAS["anything"], "closing": True}})
    text = complete(client, config, 3, max_tokens=None, temperature=1.5).choices[0].text
    schemas.check(text, True)


def test_many_requests_at_once(client: Any) -> None:
    patterns = [f"[a-z]{{{n % 7 + 1}}}-{n}" for n in range(50)]

    def text(number: int) -> str:
        config = None if number % 10 == 9 else f'{{"regex": "{patterns[number]}", "top_k": {number + 1}}}'
        found: str = complete(client, config, number).choices[0].text
        return found

    with ThreadPoolExecutor(50) as pool:
        texts = list(pool.map(text, range(50)))
    for number, (pattern, found) in enumerate(zip(patterns, texts, strict=True)):
        assert number % 10 == 9 or re.fullmatch(pattern, found), (pattern, found)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"regx": "a"}', "did you mean 'regex'?"),
        ('{"regex": "a(b"}', "at position 1\n    a(b\n     ^"),
        ('{"regex": "(a|b)*a(a|b){40}"}', "more than 50000 states"),
        ('{"top_k": "5"}', "allowed is an integer from 0"),
        ('{"ban_tokens": [99999]}', "config['ban_tokens'][0] is 99999; allowed is an integer from 0 to"),
        # Too many steps, or too many states if what an earlier request made is still known.
        (json.dumps({"banned_strings": ["ab" * 50_000]}), "; simplify the pattern"),
        (json.dumps({"stop_strings": ["x" * 1_000_000]}), "more than 50000 states"),
        (json.dumps({"regex": "x" * 1_000_000}), "more than 50000 states"),
        (json.dumps({"top_k": "9" * 1_000_000}), "allowed is an integer"),
        (json.dumps({"y" * 1_000_000: 1}), "unknown key"),
        ("[" * 1_000_000, "JSON that cannot be read"),
        (" " * 1_100_000, "allowed are up to"),
        ("{", "not valid JSON"),
        ("[1]", "give a JSON object"),
        (5, "logitkit is a number"),
        (["a"], "logitkit is a list"),
        ('{"json_schema": {"properties": {"a/b": {"type": "strin"}}}}', "'type' at #/properties/a~1b is 'strin'"),
        (
            '{"json_schema": {"schema": {"items": {"format": "nobody"}}, "strict_formats": true}}',
            "'format' at #/items: the format 'nobody' is not known",
        ),
        (
            '{"json_schema": {"schema": {"const": "longer than that"}, "closing": 2}}',
            "closing is 2, but the shortest text",
        ),
        (json.dumps({"grammar": 'root ::= "a" item'}), "line 1, column 14: the rule 'item' is not defined"),
        (json.dumps({"grammar": {"text": "start: NAME", "syntax": "lark"}}), "line 1, column 8"),
        ({"regex": "a"}, ""),  # vLLM itself takes no objects here
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bad_parameters_are_bad_requests(client: Any, config: Any, message: str) -> None:
    import openai

    with pytest.raises(openai.BadRequestError) as caught:
        complete(client, config)
    assert message in cast("dict[str, Any]", caught.value.body)["message"]
    # vLLM may tell of it in the stream, which has begun then.
    with pytest.raises(openai.APIError, match=re.escape(message)):
        list(complete(client, config, stream=True))
    assert complete(client, None).choices[0].text


@pytest.mark.parametrize("chat", [False, True])
def test_beams_of_the_server_are_refused_with_a_configuration(client: Any, chat: bool) -> None:
    """vLLM would drop it."""
    import openai

    def beams(**body: Any) -> Any:
        more = {"model": "demo", "n": 2, "max_tokens": 5, "extra_body": {"use_beam_search": True, **body}}
        if chat:
            return client.chat.completions.create(messages=[{"role": "user", "content": "Is the sky blue? "}], **more)
        return client.completions.create(prompt="Is the sky blue? ", **more)

    with pytest.raises(openai.BadRequestError, match="use_beam_search and logitkit are given"):
        beams(vllm_xargs={"logitkit": '{"choice": ["yes", "no"]}'})
    assert len(beams().choices) == 2


def test_a_grammar_of_the_server_is_refused_with_a_constraint(client: Any) -> None:
    import openai

    both = {"vllm_xargs": {"logitkit": '{"regex": "[x-z]+"}'}, "structured_outputs": {"regex": "[a-f]{4,9}"}}
    with pytest.raises(openai.BadRequestError, match="Give one of them"):
        client.completions.create(model="demo", prompt="a", max_tokens=5, extra_body=both)
    assert complete(client, None).choices[0].text
