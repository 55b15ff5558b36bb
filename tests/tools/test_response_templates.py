"""Formats that are read from response templates, against the parser of transformers."""

from __future__ import annotations

import ast
import random
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.runtime.walk import Walk
from tests.examples import examples
from tests.tools.response_templates import HAS_CALL_LISTS, compared, tools_of, written_turns
from tests.tools.turns import EOS, ids_of, vocabulary
from tests.tools.written_response_templates import NAMED, TEMPLATES, WHOLE, drawn, template
from tests.tools.written_templates import JSON

# The written texts: up to the name, after it, after the arguments of the last call, and between two calls.
MARKERS = {
    "qwen": ('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>", "\n"),
    "one text": ('<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>", ""),
    "qwen_coder": ("<tool_call>\n<function=", ">\n", "</function>\n</tool_call>", "\n"),
    "untyped tags": ('<call name="', '">\n', "</call>", ""),
    "list": ('<|START_ACTION|>[{"tool_name": "', '", "parameters": ', "}]<|END_ACTION|>", ", "),
    "ids": ('[TOOL_CALLS][{"name": "', '", "arguments": ', ', "id": "{id}"}]', ", "),
    "mistral": ("[TOOL_CALLS]", "[ARGS]", "", ""),
    "harmony": (" to=functions.", "<|channel|>commentary json<|message|>", "", None),
    "llama": ('{"name": "', '", "parameters": ', "}", None),
    "nested": ('<|call|>{"fn": {"name": "', '", "args": ', "}}<|over|>", ""),
    "call list": ("<|tool_call_start|>[", "(", ")]<|tool_call_end|>", ", "),
    "delimited": ("<|tool_call>call:", "{", "}<tool_call|>", ""),
    "seen ahead": ('<call>{"name": "', '", "arguments": ', "}</call>", ""),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_transformers_reads_the_same_in_what_is_written_and_sampled(name: str) -> None:
    form = ToolFormat.from_response_template(TEMPLATES[name])
    begin, end = form.calls_begin + form.call_begin, form.call_end + form.calls_end
    assert (begin, form.name_end, end, form.separator) == MARKERS[name]
    assert form.name == "response_template"
    if name == "call list" and not HAS_CALL_LISTS:
        # This version of transformers does not read lists of calls; its later reader is Python's.
        _compare_with_python(TEMPLATES[name], form)
        return
    counts = compared(TEMPLATES[name], form, 1, examples(120))
    assert counts["calls compared"] > 20
    assert counts["sets of calls that cannot be written"] < examples(120)


def _compare_with_python(template: dict[str, Any], form: ToolFormat) -> None:
    compared_calls = 0
    for text, turn in written_turns(tools_of(template), form, random.Random(1), examples(120), Counter()):
        calls = ast.parse(text.removeprefix("<|tool_call_start|>").removesuffix("<|tool_call_end|>"), mode="eval").body
        assert isinstance(calls, ast.List)
        read = [
            (ast.unparse(call.func), {word.arg: ast.literal_eval(word.value) for word in call.keywords})
            for call in calls.elts
            if isinstance(call, ast.Call)
        ]
        assert read == [(call.name, call.arguments) for call in turn.calls], text
        compared_calls += len(read)
    assert compared_calls > 20


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 2**32))
def test_transformers_reads_the_same_by_random_templates(seed: int) -> None:
    written = drawn(random.Random(seed))
    try:
        form = ToolFormat.from_response_template(written)
    except ConfigurationError:
        return
    compared(written, form, seed, 6)


def test_most_random_templates_are_read() -> None:
    refused = 0
    for seed in range(60):
        try:
            ToolFormat.from_response_template(drawn(random.Random(seed)))
        except ConfigurationError:
            refused += 1
    assert refused <= 6


def test_a_string_that_ends_a_call_for_transformers_is_neither_written_nor_allowed() -> None:
    tools = Tools([{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}}}],
                  ToolFormat.from_response_template(TEMPLATES["qwen"]))  # fmt: skip
    for arguments in ({"a": "x</tool_call>"}, {"b": [{"k": "</tool_call>"}]}, {"b": {"</tool_call>": 1}}):
        with pytest.raises(
            ConfigurationError, match="contain '</tool_call>', which the format 'response_template' does not"
        ):
            tools.write([ToolCall("f", arguments)])
        text = Tools(tools.tools, "hermes").write([ToolCall("f", arguments)])
        turn = tools.parse(text)
        assert turn.outside_at is not None
        assert turn.calls[0].arguments == arguments
    almost = tools.write([ToolCall("f", {"a": "</tool_call", "b": "/tool_call>"})])
    assert tools.parse(almost).outside_at is None


def test_raw_strings_that_transformers_changes_are_neither_written_nor_allowed() -> None:
    form = ToolFormat.from_response_template(TEMPLATES["qwen_coder"])
    assert (form.raw_strings, form.names, form.parameter_names) == ("unlike_json", r"[^\s>]+", r"[^\s>]+")
    members = {"text": {"type": "string"}, "either": {"type": ["string", "integer"]}}
    tools = Tools([{"name": "f", "parameters": {"type": "object", "properties": members}}], form)
    plain = Tools(tools.tools, "qwen_coder")
    for text in ("5", "true", "[1]", '{"a": 1}', '"q"', "NaN", " x", "x\n", "\x1cx"):
        with pytest.raises(ConfigurationError, match="cannot be written in the format 'response_template': it"):
            tools.write([ToolCall("f", {"text": text})])
        assert tools.parse(plain.write([ToolCall("f", {"text": text})])).outside_at is not None
    for call in (ToolCall("f", {"text": "5 apples", "either": 5}), ToolCall("f", {"text": "", "either": "x [1]"})):
        turn = tools.parse(tools.write([call]))
        assert (turn.calls[0].arguments, turn.outside_at) == (call.arguments, None)
    named = {"name": "f", "parameters": {"type": "object", "properties": {"a b": {"type": "string"}}}}
    with pytest.raises(UnsupportedSchema, match="the name 'a b' does not match"):
        Tools([named], form).constraint(vocabulary(form))


def test_the_characters_of_a_long_raw_string_are_counted() -> None:
    form = ToolFormat.from_response_template(TEMPLATES["qwen_coder"])
    members = {"text": {"type": "string", "maxLength": 5000}}
    tools = Tools([{"name": "f", "parameters": {"type": "object", "properties": members}}], form)
    plain = Tools(tools.tools, "qwen_coder")
    for text, is_allowed in (
        ("x" * 5000, True),
        ("x" * 5001, False),
        ("x" * 4998 + " x", True),
        ("x" * 4999 + " ", False),
        (" " + "x" * 4999, False),
        ("é" * 4999 + "</", False),
        ("é" * 4998 + "</", True),
        ("1" * 5000, False),
        ("1" * 4999 + "x", True),
    ):
        turn = tools.parse(plain.write([ToolCall("f", {"text": text})]))
        assert (turn.outside_at is None) == is_allowed, (text[:3], text[-3:])
        assert turn.calls[0].arguments == {"text": text}


def test_a_sampled_long_raw_string_can_always_end() -> None:
    form = ToolFormat.from_response_template(TEMPLATES["qwen_coder"])
    members = {"text": {"type": "string", "minLength": 2, "maxLength": 24}}
    schema = {"type": "object", "properties": members, "required": ["text"]}
    tools = Tools([{"name": "f", "parameters": schema}], form, choice="required")
    start = Walk.start(tools.constraint(vocabulary(form)).automaton)
    draw = random.Random(0)
    for _ in range(examples(400)):
        walk, text = start, ""
        while True:
            # White space, digits and the marker are likely, and EOS is the first token after the bytes.
            liked = [token for token in (*b" \n1x<", EOS) if walk.allows(token)]
            others = [token for token in b"/abcdefghijklmnopqrstuvwyz_>=" if walk.allows(token)]
            assert liked or others, text
            token = draw.choice(liked if liked and (not others or draw.random() < 0.9) else others)
            if token == EOS:
                break
            text, walk = text + chr(token), walk.after(token)
        found = tools.parse(text).calls[0].arguments["text"]
        assert found == found.strip()
        assert 2 <= len(found) <= 24


def test_a_tool_whose_name_transformers_cannot_read_is_refused() -> None:
    form = ToolFormat.from_response_template(TEMPLATES["harmony"])
    with pytest.raises(ConfigurationError, match=r"the name of the tool 'a.b' does not match '\\\\w\+'"):
        Tools([{"name": "a.b"}], form)
    reads = template({"open": "<call>", "close": "END", "repeats": True, "content": "json", "transform": WHOLE})
    form = ToolFormat.from_response_template(reads)
    deep = {"type": "object", "properties": {"a": {"items": {"type": "object", "required": ["x", "SENDER"]}}}}
    for tool, name in (({"name": "RENDER"}, "RENDER"), ({"name": "f", "parameters": deep}, "SENDER")):
        with pytest.raises(ConfigurationError, match=f"has the name '{name}', which contains 'END'"):
            Tools([tool], form)


def test_free_text_that_transformers_takes_for_something_else_is_not_allowed() -> None:
    tools = Tools([{"name": "f"}], ToolFormat.from_response_template(TEMPLATES["qwen"]))
    for text in ("see <think> of", "one<|im_end|>two", "<|endoftext|>"):
        assert tools.parse(text).outside_at is not None
    assert tools.parse("see <thin of").outside_at is None


def test_a_custom_tool_with_a_grammar_is_refused() -> None:
    form = ToolFormat.from_response_template(TEMPLATES["qwen"])
    rules = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}
    tools = Tools([{"type": "custom", "custom": {"name": "f", "format": rules}}], form)
    with pytest.raises(ConfigurationError, match="the custom tool 'f' has a grammar"):
        tools.constraint(vocabulary(form))


def test_auto_takes_the_response_template_first() -> None:
    calls = template(
        {"open": "<call>", "close": "</call>", "repeats": True, "content": "json", "transform": NAMED | WHOLE}
    )
    written = JSON.template()
    for options in (
        {"response_template": calls},
        {"response_template": SimpleNamespace(response_template=calls)},
        {"chat_template": SimpleNamespace(chat_template="nothing", response_template=calls)},
        {"chat_template": SimpleNamespace(tokenizer=SimpleNamespace(response_template=calls), chat_template="nothing")},
        {"chat_template": SimpleNamespace(init_kwargs={"response_template": calls}, chat_template="nothing")},
        {"chat_template": written, "response_template": calls},
    ):
        form = Tools([{"name": "f"}], "auto", **options).form
        assert (form.name, form.free_of) == ("response_template", ("</call>",)), options
    # If a format cannot express it, the chat template is used, and without one, its own error is raised.
    lax = template({**calls["fields"]["tool_calls"], "content_args": {"unquoted_keys": True}})
    assert Tools([{"name": "f"}], "auto", chat_template=written, response_template=lax).form.name == "derived"
    with pytest.raises(ConfigurationError, match="'unquoted_keys' in 'content_args'"):
        Tools([{"name": "f"}], "auto", response_template=lax)
    with pytest.raises(
        ConfigurationError, match=r"(?s)not write.*It was not read from the response template: .*unquoted_keys"
    ):
        Tools([{"name": "f"}], "auto", chat_template="nothing", response_template=lax)
    with pytest.raises(ConfigurationError, match=r"needs chat_template.*or response_template"):
        Tools([{"name": "f"}], "auto")


def test_the_chat_template_shows_the_spelling() -> None:
    reads = template({"open_pattern": r"\s*<call>", "close_pattern": r"\s*</call>", "repeats": True, "content": "json",
                      "transform": WHOLE}, content={"close": "<|end|>"})  # fmt: skip
    writes = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% for c in m.tool_calls or [] %}<call> "
        '{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}{{ "\\n" }}</call>'
        "{% endfor %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    alone = ToolFormat.from_response_template(reads)
    assert (alone.call_begin, alone.call_end, alone.verified) == ('<call>{"name": "', "}</call>", False)
    form = ToolFormat.from_response_template(reads, chat_template=writes)
    assert (form.call_begin, form.call_end, form.verified) == ('<call> {"name": "', "}\n</call>", True)
    assert form.free_of == ("</call>",)
    compared(reads, form, 3, 10)


def test_a_tokenizer_says_which_markers_are_special_tokens() -> None:
    tokenizer = SimpleNamespace(
        response_template=TEMPLATES["nested"], all_special_tokens=["<|call|>", "<|over|>", "<|text|>", "<s>"]
    )
    form = ToolFormat.from_response_template(tokenizer)
    assert form.tokens == ("<|call|>", "<|over|>")
    tools = Tools([{"name": "f"}], form, choice="required")
    text = tools.write([ToolCall("f", {})])
    assert tools.parse(ids_of(text, form), vocabulary(form)).outside_at is None
    assert tools.parse([*text.encode()], vocabulary(form)).outside_at == 0
    compared(TEMPLATES["nested"], form, 5, 10)


def test_the_format_stands_in_configurations() -> None:
    for name in ("qwen_coder", "list", "call list"):
        form = ToolFormat.from_response_template(TEMPLATES[name])
        constraint = Tools([{"name": "ping"}], form).constraint(vocabulary(form))
        again = lk.from_config(lk.to_config(constraint), vocabulary(form))
        assert isinstance(again, type(constraint))
        assert again.format == form
        assert lk.to_config(again) == lk.to_config(constraint)


def test_reading_takes_little_time_and_is_remembered() -> None:
    begin = time.perf_counter()
    first = ToolFormat.from_response_template(TEMPLATES["qwen"] | {"defaults": {"time": 1}})
    middle = time.perf_counter()
    assert ToolFormat.from_response_template(TEMPLATES["qwen"] | {"defaults": {"time": 1}}) is first
    assert time.perf_counter() - middle < 0.1
    assert middle - begin < 20
