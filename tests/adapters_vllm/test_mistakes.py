"""Likely mistakes are refused by name, with what to send, instead of being ignored."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from logitkit.errors import ConfigurationError
from logitkit_adapters.admission.configurations import Configurations, any_vocabulary
from logitkit_adapters.vllm.mistakes import check_body, check_extra_args
from logitkit_adapters.vllm.parameters import asked
from logitkit_adapters.vllm.settings import vllm_limits

TEXT = '{"regex": "[0-9]+"}'
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "ping", "parameters": SCHEMA}}
HOW = r'send "vllm_xargs": {"logitkit": "{\\"regex\\"'


@pytest.mark.parametrize(
    "key",
    [
        "logit_kit",
        "Logitkit",
        "LOGITKIT",
        "logits_kit",
        "logitkits",
        "logtikit",
        "logitkit_config",
        "logitkit_prompt_len",
    ],
)
def test_names_like_ours_are_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the extra arguments have the key '{key}', which is ignored"):
        check_extra_args({key: TEXT}, others_read=True)
    with pytest.raises(ConfigurationError, match=f"the field '{key}', which vLLM ignores; {HOW}"):
        check_body({key: TEXT})


@pytest.mark.parametrize(
    "key", ["logits_bias", "logprobs", "kit", "logits", "toolkit", "session_id", "kv_transfer_params"]
)
def test_other_names_are_not(key: str) -> None:
    check_extra_args({key: TEXT, "logitkit": TEXT, "logitkit_prompt_length": 3}, others_read=False)
    check_body({key: TEXT})


@pytest.mark.parametrize("key", ["regex", "json_schema", "tools", "chain", "top_k"])
def test_processors_outside_of_the_configuration_are_refused(key: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the key '{key}', which is ignored outside of a configuration"):
        check_extra_args({key: "a"}, others_read=False)
    # Another plugin may read it.
    check_extra_args({key: "a"}, others_read=True)
    # Other servers have fields with such names.
    check_body({key: "a"})
    with pytest.raises(ConfigurationError, match=f"the field 'extra_args.{key}', which vLLM ignores"):
        check_body({"extra_args": {key: "a"}})


def test_fields_are_searched_inside() -> None:
    with pytest.raises(ConfigurationError, match=r"the field 'extra_body.vllm_xargs.logitkit', which vLLM ignores"):
        check_body({"extra_body": {"vllm_xargs": {"logitkit": TEXT}}})
    check_body({"nested": {"a": {"b": {"logitkit": TEXT}}}, "list": [{"logitkit": TEXT}]})
    check_body(None)
    for inside in (
        {"vllm_xargs": {"logitkit": TEXT}},
        {"extra_args": {"regex": "a"}},
        {"extra_body": {"logit_kit": TEXT}},
    ):
        with pytest.raises(
            ConfigurationError, match=r"the key '(vllm_xargs|extra_args|extra_body)\.\w+', which is ignored"
        ):
            check_extra_args(inside, others_read=False)
    check_extra_args({"logitkit": {"regex": "a", "chain": []}, "other": {"regex": "a"}}, others_read=False)
    # Of another plugin, offline.
    check_extra_args({5: "a"}, others_read=True)  # type: ignore[dict-item]


MISPLACED: tuple[dict[str, Any], ...] = (
    {"logitkit": {"regex": "[0-9]+"}},
    {"logitkit": TEXT},
    {"extra_args": {"logitkit": {"regex": "[0-9]+"}}},
    {"extra_args": {"regex": "[0-9]+"}},
    {"vllm_xargs": {"regex": "[0-9]+"}},
    {"vllm_xargs": {"logit_kit": TEXT}},
    {"vllm_xargs": {"Logitkit": TEXT}},
    {"vllm_xargs": {"Logitkit": TEXT}, "use_beam_search": True, "n": 2},
    {"logitkit": TEXT, "use_beam_search": True, "n": 2},
)
IN_TEMPLATES = {"chat_template_kwargs": {"logitkit": TEXT}}


# Responses have no beam search.
PLACES = [
    (endpoint, body)
    for endpoint in ("completions", "chat", "responses")
    for body in MISPLACED
    if endpoint != "responses" or "use_beam_search" not in body
]


@pytest.mark.parametrize(("endpoint", "body"), PLACES, ids=str)
def test_a_server_refuses_them(client: openai.OpenAI, endpoint: str, body: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError, match=r"which vLLM ignores|which is ignored"):
        ask(client, endpoint, body)


def test_arguments_of_a_chat_template_are_not_a_place_either(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"the field 'chat_template_kwargs\.logitkit', which vLLM ignores"):
        ask(client, "chat", IN_TEMPLATES)
    ask(client, "chat", {"chat_template_kwargs": {"enable_thinking": False, "regex": "a"}})


@pytest.mark.parametrize("endpoint", ["completions", "chat", "responses"])
def test_a_server_refuses_guidance(client: openai.OpenAI, endpoint: str) -> None:
    with pytest.raises(openai.BadRequestError, match="Guidance reads the logits of a second pass, which a server does"):
        ask(client, endpoint, {"vllm_xargs": {"logitkit": '{"guidance": 1.5}'}})


def ask(client: openai.OpenAI, endpoint: str, body: dict[str, Any]) -> Any:
    if endpoint == "completions":
        return client.completions.create(model="demo", prompt="a", max_tokens=4, extra_body=body)
    if endpoint == "responses":
        return client.responses.create(model="demo", input="a", max_output_tokens=16, extra_body=body)
    messages: Any = [{"role": "user", "content": "a"}]
    return client.chat.completions.create(model="demo", messages=messages, max_tokens=4, extra_body=body)


@pytest.mark.parametrize("endpoint", ["completions", "chat", "responses"])
def test_the_refusal_of_a_configuration_that_is_not_a_string_says_what_to_send(
    client: openai.OpenAI, endpoint: str
) -> None:
    """vLLM refuses the body before a plugin sees it."""
    for value in ({"regex": "[0-9]+"}, None):
        with pytest.raises(openai.BadRequestError) as refused:
            ask(client, endpoint, {"vllm_xargs": {"logitkit": value}})
        assert str(refused.value.body).count("vllm_xargs.logitkit is not a string; send") == 1
        assert refused.value.param == "vllm_xargs.logitkit"
    with pytest.raises(openai.BadRequestError, match="vllm_xargs is not an object; to use logitkit, send"):
        ask(client, endpoint, {"vllm_xargs": TEXT})


def test_other_errors_of_a_body_stay_as_they_are(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match=r"body\.vllm_xargs\.other") as refused:
        ask(client, "completions", {"vllm_xargs": {"other": {"regex": "[0-9]+"}}})
    assert "logitkit" not in str(refused.value)


@pytest.mark.parametrize("endpoint", ["completions", "chat", "responses"])
def test_a_server_still_takes_what_is_right(client: openai.OpenAI, endpoint: str) -> None:
    ask(client, endpoint, {"vllm_xargs": {"logitkit": '{"regex": "[0-9]{3}"}', "session_id": "x"}, "unknown": {"a": 1}})


def test_offline_requests_are_refused_too(llm: Any) -> None:
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError

    for given in ({"regex": "[0-9]+"}, {"logit_kit": {"regex": "[0-9]+"}}):
        with pytest.raises(VLLMValidationError, match="which is ignored"):
            llm.generate("a", SamplingParams(extra_args=given), use_tqdm=False)


@pytest.mark.parametrize("begin", [2, 10**9])
def test_a_true_prompt_is_not_longer_than_the_prompt(llm: Any, client: openai.OpenAI, begin: int) -> None:
    from vllm import SamplingParams
    from vllm.exceptions import VLLMValidationError

    params = SamplingParams(extra_args={"logitkit": {"regex": "[0-9]+"}, "logitkit_prompt_length": begin})
    message = f"logitkit_prompt_length is {begin}, but the prompt has 1 tokens; allowed are numbers from 0 to 1"
    with pytest.raises(VLLMValidationError, match=message):
        llm.generate({"prompt_token_ids": [50]}, params, use_tqdm=False)
    body = {"vllm_xargs": {"logitkit": TEXT, "logitkit_prompt_length": begin}}
    with pytest.raises(openai.BadRequestError, match=message):
        client.completions.create(model="demo", prompt=[50], max_tokens=4, extra_body=body)
    body["vllm_xargs"]["logitkit_prompt_length"] = 1
    client.completions.create(model="demo", prompt=[50], max_tokens=4, extra_body=body)


def refusal(config: Any) -> str:
    what = asked(SimpleNamespace(extra_args={"logitkit": config}, max_tokens=16))
    assert what is not None
    found = Configurations(any_vocabulary(), settings=vllm_limits).judge(what).refusal
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("[1]", "logitkit is a list; "),
        ("null", "logitkit is null; "),
        ("5", "logitkit is a number; "),
        ("true", "logitkit is a boolean; "),
        (json.dumps(TEXT), "logitkit is JSON that was encoded twice; "),
        ("[0-9]+", "logitkit is not valid JSON: "),
        ("{'regex': 'a'}", "logitkit is not valid JSON: "),
        ("", "logitkit is not valid JSON: "),
    ],
)
def test_texts_of_another_form_say_what_to_send(given: str, words: str) -> None:
    found = refusal(given)
    assert found.startswith(words)
    assert found.endswith('give a JSON object whose keys are kinds of processors, such as {"choice": ["yes", "no"]}')


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"regex": "a", "regex": "b"}', "regex"),
        ('{"json_schema": {"schema": {"type": "object", "properties": {"a": {}, "a": {}}}}}', "a"),
        ('{"json_schema": "{\\"type\\": \\"string\\", \\"type\\": \\"null\\"}"}', "type"),
    ],
)
def test_keys_that_come_twice_are_refused(text: str, key: str) -> None:
    assert f"an object has the key '{key}' twice" in refusal(text)


def test_many_equal_keys_are_found_in_no_time() -> None:
    keys = ",".join(f'"{number}": 1' for number in range(90_000))
    assert "has the key '7' twice" in refusal(f'{{{keys}, "7": 2}}')


RESPONSE_FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}


@pytest.mark.parametrize(
    ("config", "hint"),
    [
        ({"json_schema": RESPONSE_FORMAT}, '"json_schema": response_format["json_schema"]["schema"]'),
        ({"json_schema": RESPONSE_FORMAT["json_schema"]}, '"json_schema": response_format["json_schema"]["schema"]'),
        ({"json_schema": {"schema": RESPONSE_FORMAT, "closing": True}}, 'response_format["json_schema"]["schema"]'),
        ({"response_format": RESPONSE_FORMAT}, '"json_schema": response_format["json_schema"]["schema"]'),
        ({"tools": TOOL}, 'put the tool into a list: "tools": [{"type": "function", "function": ...}]'),
        ({"tools": TOOL["function"]}, "put the tool into a list"),
        ({"tools": {"tools": TOOL, "format": "hermes"}}, "put the tool into a list"),
        ({"tools": json.dumps([TOOL])}, "give the value of 'tools' as JSON, not as text"),
        ({"tools": [TOOL], "format": "hermes"}, 'put \'format\' inside: "tools": {"tools": ..., "format": ...}'),
        (
            {"json_schema": SCHEMA, "closing": True},
            'put \'closing\' inside: "json_schema": {"schema": ..., "closing": ...}',
        ),
        (TOOL, 'put the tool into a list of "tools": {"tools": [{"type"'),
        ({"type": "structural_tag", "format": {}}, 'put the structural tag into "structural_tag"'),
        (SCHEMA, 'put the schema into "json_schema": {"json_schema": {"type": ...}}'),
        ({"guided_json": SCHEMA}, "name the processor in place of 'guided_json': json_schema"),
        (
            {"structured_outputs": {"json": SCHEMA}},
            "name the processor in place of 'structured_outputs': json_schema, regex",
        ),
    ],
    ids=str,
)
def test_forms_of_other_interfaces_are_recognized(config: Any, hint: str) -> None:
    for given in (config, json.dumps(config)):
        assert "To correct it, " in refusal(given)
        assert hint in refusal(given)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"regex": "(a|b)*a(a|b){40}"}, "or ask the operator for a larger LOGITKIT_VLLM_MAX_STATES"),
        ({"choice": ["ab" * 20_000]}, "or ask the operator for a larger LOGITKIT_VLLM_MAX_WORK"),
        ({"grammar": 'start: "a"'}, 'give "syntax": "lark"|"syntax": "lark"'),
        (
            {"json_schema": {"schema": {"type": "string", "format": "x-y"}, "strict_formats": True}},
            '"strict_formats": false',
        ),
        (
            {"json_schema": {"type": "number", "multipleOf": 0.123456789}},
            '"lax": true would leave out',
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_messages_name_no_arguments_of_python(config: Any, words: str) -> None:
    found = refusal(config)
    assert any(one in found for one in words.split("|")), found
    assert "limits=" not in found
    assert "pass " not in found
    assert "=False" not in found


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"regex": "a", "choice": ["b"]}, r"all constraints of the chain \(regex, choice\)$"),
        (
            {"chain": [{"stop_strings": ["a"]}, {"regex": "a"}]},
            "^regex comes after stop_strings, .* order: guidance, logit_bias, ",
        ),
        (
            {"chain": [{"temperature": 0}, {"regex": "a"}]},
            "the constraint regex after temperature, which .*; put regex first",
        ),
        ({"json_schema": "{"}, r"give the schema as JSON$"),
        ({"tools": {"tools": [TOOL], "format": "x"}}, "or an object with the data of a format$"),
        # A name in what was given stays as it is.
        ({"grammar": "root ::= TopK"}, "the rule 'TopK' is not defined"),
    ],
    ids=str,
)
def test_messages_name_no_classes_of_python(config: Any, words: str) -> None:
    assert re.search(words, refusal(config))
