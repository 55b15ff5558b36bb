"""Formats that are derived from chat templates, against templates with known markers, and the templates of mistral-common."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError
from logitkit.tools.formats import TOOL_FORMATS, detect
from tests.examples import examples
from tests.tools.turns import EOS, TOOLS, ids_of, same, vocabulary
from tests.tools.written_templates import JSON, WrittenTemplate, drawn

CALLS = [
    ToolCall("get_weather", {"city": 'Bö"nn\n<x>', "days": 2}, id="Ab3dE6gH9"),
    ToolCall("ping", {}, id="000000001"),
    ToolCall("save", {"note": {"a": [1, None, True]}, "tags": ["", "{"], "title": None}, id="callcallc"),
]


@settings(max_examples=examples(8), deadline=None)
@given(st.integers(0, 2**32))
@example(1223)  # names without quotes in objects, and arguments before `=`
def test_a_random_template_is_derived_and_what_it_writes_is_written_and_read(seed: int) -> None:
    check(drawn(random.Random(seed)))


def check(written: WrittenTemplate) -> ToolFormat:
    """Compare what is derived from a template with its markers."""
    form = ToolFormat.from_chat_template(written.template())
    assert form.verified
    tools = Tools(TOOLS, form)
    for calls in (CALLS, *([call] for call in CALLS)):
        text = written.text(calls)
        assert tools.write(calls).strip() == text.strip(), written
        turn = tools.parse(form.leading_space + text.lstrip())
        assert same(turn.calls, calls), (written, turn)
        assert (turn.problem, turn.outside_at, turn.text.strip()) == (None, None, "")
        assert [call.id for call in turn.calls] == [
            call.id if "{id}" in "".join(written.head) else None for call in calls
        ]
        stream = tools.stream()
        for character in form.leading_space + text.lstrip():
            stream.feed(character)
        assert same(stream.finish()[1].calls, calls), (written, stream)
    if written.reasoning is not None:
        thinking = Tools(TOOLS, form, choice="required", reasoning=True)
        opened, closed = written.reasoning
        turn = thinking.parse(f"{opened}Let me see.{closed}{written.text(CALLS).lstrip()}")
        assert (turn.reasoning or "").strip() == "Let me see."
        assert same(turn.calls, CALLS)
    return form


@pytest.mark.parametrize("version", ["v2", "v3", "v7", "v11", "v13", "v15"])
def test_the_templates_of_mistral_common_are_derived(version: str) -> None:
    form = ToolFormat.from_chat_template(mistral_template(version))
    expected: dict[str, dict[str, Any]] = {
        "v2": {"calls_begin": "[TOOL_CALLS][", "call_end": "}", "id_length": None},
        "v3": {"calls_begin": "[TOOL_CALLS][", "call_end": ', "id": "{id}"}', "id_length": 9},
        "v7": {"calls_begin": "[TOOL_CALLS][", "call_end": ', "id": "{id}"}', "id_length": 9},
        "v11": {"call_begin": "[TOOL_CALLS]", "name_end": "[CALL_ID]{id}[ARGS]", "id_length": 9},
    }
    if version in ("v13", "v15"):
        assert form is TOOL_FORMATS["mistral"]
    for name, value in expected.get(version, {}).items():
        assert getattr(form, name) == value


def mistral_template(version: str) -> str:
    from mistral_common.integrations.chat_templates.template_generator import TemplateConfig, build_chat_template
    from mistral_common.tokens.tokenizers.base import TokenizerVersion

    efforts: dict[str, Any] = {"reasoning_effort_values": ("none", "high"), "reasoning_effort_default": "none"}
    return build_chat_template(
        TemplateConfig(version=TokenizerVersion(version), **(efforts if version == "v15" else {}))
    )


def test_what_is_derived_from_a_template_of_a_known_format_is_that_format() -> None:
    around, head = ("", "<tool_call>\n", "\n</tool_call>", "\n", ""), ('{"name": "', '", "arguments": ', "}")
    hermes = WrittenTemplate(
        around, head, None, "json", "", "<|im_start|>assistant\n", "<|im_end|>\n", None, True, False
    )
    assert ToolFormat.from_chat_template(hermes.template()) is TOOL_FORMATS["hermes"]
    llama = (
        hermes.template()
        .replace("<tool_call>\\n", "")
        .replace("\\n</tool_call>", "")
        .replace("arguments\\", "parameters\\")
    )
    llama = llama.replace(
        "{% for c in", "{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}{% for c in"
    )
    assert ToolFormat.from_chat_template(llama) is TOOL_FORMATS["llama3_json"]


@pytest.mark.parametrize("between", ["", "    "])
def test_the_indentation_of_a_template_between_calls_is_not_that_of_a_known_format(between: str) -> None:
    known = TOOL_FORMATS["deepseek_v31"]
    written = WrittenTemplate(
        (between + known.calls_begin, known.call_begin, known.call_end + between, between, known.calls_end),
        ("", known.name_end, ""),
        *(None, "json", "", "<|assistant|>", "<|end|>", None, True, False),
    )
    assert ToolFormat.from_chat_template(written.template()) is known


def test_a_tokenizer_says_which_markers_are_special_tokens() -> None:
    tokenizer = SimpleNamespace(
        chat_template={"default": "x", "tool_use": JSON.template()},
        bos_token="<s>",
        eos_token="</s>",
        all_special_tokens=["<call>", "<|end|>", "</call>"],
    )
    form = ToolFormat.from_chat_template(tokenizer)
    assert form.tokens == ("</call>", "<call>")
    assert ToolFormat.from_chat_template(JSON.template()).tokens == ()
    tools = Tools(TOOLS, form, choice="required")
    turn = tools.parse([*ids_of(JSON.text(CALLS), form), EOS], vocabulary(form))
    assert same(turn.calls, CALLS)
    assert (turn.complete, turn.outside_at) == (True, None)
    spelled = tools.parse([*JSON.text(CALLS).encode(), EOS], vocabulary(form))
    assert (spelled.calls, spelled.outside_at) == ((), 0)


def test_a_tokenizer_of_transformers_can_be_given() -> None:
    from transformers import AutoTokenizer

    from logitkit_adapters.demo import model_dir

    tokenizer = AutoTokenizer.from_pretrained(model_dir())
    tokenizer.add_special_tokens({"additional_special_tokens": ["<call>"]})
    tokenizer.chat_template = JSON.template()
    assert ToolFormat.from_chat_template(tokenizer).tokens == ("<call>",)


def test_auto_derives_and_falls_back_to_the_known_formats() -> None:
    tools = Tools(TOOLS, "auto", chat_template=JSON.template())
    assert (tools.form.name, tools.form.verified) == ("derived", True)
    tokenizer = SimpleNamespace(chat_template=JSON.template(), all_special_tokens=["<call>"])
    assert Tools(TOOLS, "auto", chat_template=tokenizer).form.tokens == ("<call>",)
    hermes = """{{ '<tool_call>' }} {{ '"arguments": ' }}"""
    assert Tools(TOOLS, "auto", chat_template=hermes).form is detect(hermes) is TOOL_FORMATS["hermes"]
    assert Tools(TOOLS, "auto", chat_template=SimpleNamespace(chat_template=hermes)).form is TOOL_FORMATS["hermes"]
    with pytest.raises(ConfigurationError, match="has no text as `chat_template`"):
        Tools(TOOLS, "auto", chat_template=5)
    with pytest.raises(
        ConfigurationError, match="It was not derived either: the format of tool calls cannot be derived"
    ):
        Tools(TOOLS, "auto", chat_template="{{ messages }}")


def test_a_configuration_holds_the_data_of_a_derived_format_and_never_a_template() -> None:
    numbered = WrittenTemplate(
        ("<|calls|>", "", "", "", "<|done|>"),
        ("functions.", ":{number}<|args|>", ""),
        *(None, "json", "", "<|assistant|>", "<|end|>", None, True, False),
    )
    form = check(numbered)
    constraint = Tools(TOOLS, form).constraint(vocabulary(form))
    config = lk.to_config(constraint)
    assert config["tools"]["format"]["name_end"] == ":{number}<|args|>"
    assert lk.from_config(config, vocabulary(form)) == constraint
    for wrong in ({"format": "auto"}, {"chat_template": "x"}, {"format": {"from_chat_template": "x"}}):
        with pytest.raises(ConfigurationError):
            lk.from_config({"tools": {**config["tools"], **wrong}}, vocabulary(form))
