"""Response templates for the tests: those of some families of models, written for these tests, and random ones."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["TEMPLATES", "drawn"]

NAMED = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
WHOLE = {"type": "function", "function": "{content}"}
IN_TAGS = {"open": "<think>", "close": "</think>", "content": "text"}
JSON_OR_TEXT = {"name": "json", "args": {"allow_non_json": True}}


def template(calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a response template with a field of calls and other fields."""
    return {"defaults": {"role": "assistant"}, "start_anchor": "<|bot|>\n", "fields": {"tool_calls": calls, **fields}}


TEMPLATES: dict[str, dict[str, Any]] = {
    # The white space between two calls is part of the second one, so that it is not the text of an answer.
    "qwen": template(
        {
            "open_pattern": r"\s*<tool_call>",
            "close": "</tool_call>",
            "repeats": True,
            "content": "json",
            "transform": WHOLE,
        },
        reasoning_content=IN_TAGS,
        content={"close_pattern": r"\s*(?:<\|im_end\|>|<\|endoftext\|>)"},
    ),
    # Here it is that text, and what stood before the calls would be forgotten.
    "one text": template(
        {"open": "<tool_call>", "close": "</tool_call>", "repeats": True, "content": "json", "transform": WHOLE},
        thinking=IN_TAGS,
        content={"close": "<|im_end|>"},
    ),
    "qwen_coder": template(
        {
            "open_pattern": r"<tool_call>\s*<function=(?P<name>[^\s>]+)>",
            "close_pattern": r"</tool_call>\s*",
            "repeats": True,
            "content": "xml-inline",
            "content_args": {
                "tag_pattern": r"<parameter=(?P<key>[^\s>]+)>\s*(?P<value>.*?)\s*</parameter>",
                "value_parser": JSON_OR_TEXT,
            },
            "transform": NAMED,
        },
        reasoning_content=IN_TAGS,
        content={"close_pattern": r"<\|im_end\|>\s*"},
    ),
    # The schemas of tools say what the values are.
    "untyped tags": template(
        {
            "open_pattern": r"<call name=\"(?P<name>[\w.-]+)\">\n",
            "close": ["</call>", "<|stop|>"],
            "repeats": True,
            "content": "xml-inline",
            "content_args": {"tag_pattern": r"<arg name=\"(?P<key>[\w ]+)\">(?P<value>.*?)</arg>"},
            "transform": NAMED,
        },
        content={"open": "<say>", "close": "</say>"},
    ),
    "list": template(
        {
            "open": "<|START_ACTION|>",
            "close": "<|END_ACTION|>",
            "content": "json",
            "transform_each": True,
            "transform": {"type": "function", "function": {"name": "{tool_name}", "arguments": "{parameters}"}},
        },
        content={"open": "<|START_RESPONSE|>", "close": "<|END_RESPONSE|>"},
        thinking={"open": "<|START_THINKING|>", "close": "<|END_THINKING|>"},
    ),
    "ids": template(
        {
            "open_pattern": r"\[TOOL_CALLS\]\s*",
            "close": "</s>",
            "content": "json",
            "transform_each": True,
            "transform": {"id": "{id}", "type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}},
        },
        content={"close": "</s>"},
    ),
    "mistral": template(
        {
            "open_pattern": r"\[TOOL_CALLS\](?P<name>[\w.-]+)\[ARGS\]",
            "close_pattern": r"(?=\[TOOL_CALLS\]|</s>)",
            "repeats": True,
            "content": "json",
            "transform": NAMED,
        },
        reasoning={"open": "[THINK]", "close": "[/THINK]"},
        content={"close": "</s>"},
    ),
    "harmony": template(
        {
            "open_pattern": r"(?:<\|channel\|>commentary\s)?to=functions\.(?P<name>\w+).*?<\|message\|>",
            "close": "<|call|>",
            "repeats": True,
            "content": "json",
            "transform": NAMED,
        },
        thinking={"open": "<|channel|>analysis<|message|>", "close": "<|end|>"},
        content={"open": "<|channel|>final<|message|>", "close": ["<|return|>", "<|end|>"]},
    ),
    "llama": template(
        {
            "open_pattern": r'\{"name":\s*"(?P<name>[^"]+)",\s*"parameters":\s*',
            "close_pattern": r"\}<\|eot_id\|>",
            "repeats": True,
            "content": "json",
            "transform": NAMED,
        },
        content={"close_pattern": r"<\|eot_id\|>\s*"},
    ),
    "nested": template(
        {
            "open_pattern": r"(?:<\|author\|>[^<]*)?<\|call\|>",
            "close": "<|over|>",
            "repeats": True,
            "content": "json",
            "transform": {"function": {"name": "{content.fn.name}", "arguments": "{content.fn.args}"}},
        },
        thinking={"open": "<|why|>", "close": "<|over|>", "repeats": True, "join": ""},
        content={
            "open": "<|text|>",
            "close": "<|over|>",
            "repeats": True,
            "join": "",
            "content_args": {"strip": False},
        },
    ),
    "call list": template(
        {
            "open": "<|tool_call_start|>",
            "close": "<|tool_call_end|>",
            "content": "python-call-list",
            "transform_each": True,
            "transform": {"function": {"name": "{name}", "arguments": "{arguments}"}},
        },
        content={"close": "<|im_end|>"},
    ),
    # The way of Gemma 4: strings between delimiters, and names without quotes.
    "delimited": template(
        {
            "open_pattern": r"<\|tool_call>call:(?P<name>\w+)",
            "close_pattern": r"<tool_call\|>\s*",
            "repeats": True,
            "content": "json",
            "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
            "transform": NAMED,
        },
        thinking={"open": "<|channel>thought\n", "close_pattern": r"<channel\|>\s*"},
        content={"close": "<turn|>"},
    ),
    # Reasoning is whatever an end of reasoning follows, so no call may contain one.
    "seen ahead": template(
        {"open": "<call>", "close_pattern": r"</call>|$", "repeats": True, "content": "json", "transform": WHOLE},
        reasoning_content={"open_pattern": r"(?=[\s\S]*?</think>)", "close_pattern": r"</think>\s*"},
        content={"close_pattern": r"<\|im_end\|>\s*"},
    ),
}


def escaped(text: str) -> str:
    """Return the pattern of a text."""
    return "".join(f"\\{character}" if character in r"\^$.*+?()[]{}|" else character for character in text)


def drawn(draw: random.Random) -> dict[str, Any]:
    """Return a random response template; most, but not all, can be read."""
    begin = draw.choice(("<call>", "<|call|>", "[call]", "<<call>>", "call: ", "@call\n"))
    end = draw.choice(("</call>", "<|over|>", "[/CALL]", "</c></call>", "END"))
    space = [draw.choice(("", "", r"\s*", r"\n?", r"\s+", r"[ \n]*")) for _ in range(3)]
    kind = draw.choice(("in JSON", "in the anchor", "in tags", "list", "nested"))
    calls: dict[str, Any] = {"content": "json", "repeats": True}
    if kind in ("in the anchor", "in tags"):
        before, after = draw.choice((("<fn=", ">"), ("", "|"), ("", "\n"), ('name="', '">')))
        name = draw.choice((r"\w+", r"[^\s<>|:\"]+", r"[A-Za-z0-9_.-]+", r"[a-zA-Z_]\w*"))
        around = draw.choice(("", r"\s*")) + escaped(begin) + space[0] + before
        calls["open_pattern"] = f"{around}(?P<name>{name}){escaped(after)}{space[1]}"
        calls["transform"] = NAMED
    elif draw.random() < 0.5:
        calls["open"] = begin
    else:
        calls["open_pattern"] = draw.choice(("", r"\s*")) + escaped(begin) + space[0]
    if draw.random() < 0.5:
        calls["close"] = end if draw.random() < 0.8 else [end, "</s>"]
    else:
        calls["close_pattern"] = space[2] + escaped(end) + draw.choice(("", r"\s*"))
    if kind == "in JSON":
        dotted = {"function": {"name": "{content.name}", "arguments": "{content.args}"}}
        calls["transform"] = draw.choice((WHOLE, dotted))
    elif kind == "nested":
        calls["transform"] = {"function": {"name": "{content.fn.name}", "arguments": "{content.fn.arguments}"}}
    elif kind == "list":
        calls = {key: value for key, value in calls.items() if key != "repeats"} | {"transform_each": True}
        function = {"name": "{name}", "arguments": "{arguments}"}
        calls["transform"] = draw.choice(
            ({"function": {"name": "{tool_name}", "arguments": "{parameters}"}}, {"id": "{id}", "function": function})
        )
    elif kind == "in tags":
        strip = draw.choice(("", r"\s*"))
        tags = draw.choice((("<p=", r"[^>]+", ">", "</p>"), ("<k>", r"\w+", r"</k>\s*<v>", "</v>")))
        calls["content"] = "xml-inline"
        calls["content_args"] = {
            "tag_pattern": f"{tags[0]}(?P<key>{tags[1]}){tags[2]}{strip}(?P<value>.*?){strip}{tags[3]}"
        }
        parser = draw.choice((None, JSON_OR_TEXT, {"name": "text"}, {"name": "text", "args": {"strip": False}}))
        calls["content_args"] |= {} if parser is None else {"value_parser": parser}
    elif kind == "in the anchor" and draw.random() < 0.3:
        delimiter = draw.choice(('<|"|>', "<escape>", "`"))
        calls["content_args"] = {"unquoted_keys": True, "string_delims": [[delimiter, delimiter]]}
    fields: dict[str, Any] = {}
    contents = (
        {"close": draw.choice(("</s>", ["</s>", "<|im_end|>"]))},
        {"open": "<say>", "close": "</say>"},
        {"close_pattern": r"\s*(?:</s>|<\|eot\|>)", "repeats": True, "join": ""},
    )
    if draw.random() < 0.75:
        fields["content"] = draw.choice(contents)
    if draw.random() < 0.5:
        opening = draw.choice(("<think>", "<|channel>thought\n"))
        closing = draw.choice(({"close": "</think>"}, {"close_pattern": r"</think>\s*"}))
        fields[draw.choice(("thinking", "reasoning_content"))] = {"open": opening, **closing}
    return template(calls, **fields)
