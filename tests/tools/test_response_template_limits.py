"""Response templates and formats from strangers: patterns that backtrack, deep values, and many excluded texts."""

from __future__ import annotations

import time
from typing import Any

import pytest

from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge
from tests.tools.response_templates import compared
from tests.tools.written_response_templates import IN_TAGS, JSON_OR_TEXT, NAMED, WHOLE, template


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:\s*)(?:\s*)(?:\s*)(?:\s*)(?:\s*)(?:\s*)(?:\s*)(?:\s*)(?:\s*)(?:\s*)(?:\s*)x<call>",
        "[^x]*" * 55 + "<call>",
        "(?:a|b)" * 5 + ".*?" * 50 + "<call>",
        "a?" * 59 + "<call>",
        r"(?=" * 7 + r"[\s\S]*?" * 50 + "<call>" + ")" * 7,
    ],
)
def test_a_pattern_that_backtracks_is_read_or_refused_in_time(pattern: str) -> None:
    calls = {"open_pattern": pattern, "close": "</call>", "repeats": True, "content": "json", "transform": WHOLE}
    tags = {"tag_pattern": pattern + r"(?P<key>\w*)" + r"=(?P<value>.*?);", "value_parser": JSON_OR_TEXT}
    named = {
        **calls,
        "open_pattern": r"<(?P<name>\w+)>",
        "transform": NAMED,
        "content": "xml-inline",
        "content_args": tags,
    }
    begin = time.perf_counter()
    for field in (calls, named):
        try:
            form = ToolFormat.from_response_template(template(field, thinking=IN_TAGS))
        except ConfigurationError:
            continue
        compared(template(field, thinking=IN_TAGS), form, 0, 2)
    assert time.perf_counter() - begin < 30


def test_many_nested_values_and_long_texts_are_refused() -> None:
    deep: Any = "{content}"
    for _ in range(100_000):
        deep = [deep]
    calls = {"open": "<call>", "close": "</call>", "repeats": True, "content": "json", "transform": {"function": deep}}
    for field in (calls, {**calls, "transform": WHOLE, "open": "<" * 30_000}):
        with pytest.raises(ConfigurationError, match="the response template has more than 20000 characters"):
            ToolFormat.from_response_template(template(field))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": "("}, "unterminated|missing"),
        ({"names": "a" * 501}, "a pattern of names has 501 characters; allowed are 500"),
        ({"parameter_names": "(a|b)*a(a|b){20}"}, "states|steps"),
        ({"free_of": ("x",) * 17}, "free_of has 17 texts"),
        (
            {"text_free_of": ("x" * 65,)},
            "text_free_of has 1 texts of up to 65 characters; allowed are 16 texts of up to 64",
        ),
        ({"free_of": "x"}, "free_of is 'x' of type str; allowed is a tuple of str, none empty"),
        ({"raw_strings": "none"}, "'none' is not allowed; allowed are 'any', 'trimmed', 'unlike_json'"),
    ],
)
def test_limits_of_what_a_format_excludes_are_checked(options: dict[str, Any], message: str) -> None:
    begin = time.perf_counter()
    with pytest.raises((ConfigurationError, PatternSyntaxError, PatternTooLarge), match=message):
        ToolFormat(name="own", call_begin="<call>", name_end=" ", call_end="</call>", **options)
    assert time.perf_counter() - begin < 10


def test_many_excluded_texts_compile() -> None:
    texts = tuple(f"<|{letter * 60}|>" for letter in "abcdefghijklmnop")
    form = ToolFormat(
        name="own",
        call_begin="<call>",
        name_end=" ",
        call_end="</call>",
        trigger="<call>",
        free_of=texts,
        text_free_of=texts,
    )
    tools = Tools([{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}], form)
    text = tools.write([ToolCall("f", {"a": texts[0][:-1]})])
    assert tools.parse(text).outside_at is None
    assert tools.parse(text.replace("a|", "a|>")).outside_at is not None
    assert tools.parse(f"see {texts[3]}").outside_at is not None
