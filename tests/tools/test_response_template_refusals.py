"""Response templates that are wrong, or that a format cannot express, are refused by name."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from logitkit import ToolFormat
from logitkit.errors import ConfigurationError
from tests.tools.written_response_templates import IN_TAGS, JSON_OR_TEXT, NAMED, WHOLE, template

CALLS: dict[str, Any] = {"open": "<call>", "close": "</call>", "repeats": True, "content": "json", "transform": WHOLE}
TAGS: dict[str, Any] = {
    **CALLS,
    "open_pattern": r"<call (?P<name>\w+)>",
    "content": "xml-inline",
    "content_args": {"tag_pattern": r"<(?P<key>\w+)>(?P<value>.*?)</arg>", "value_parser": JSON_OR_TEXT},
    "transform": NAMED,
}
del TAGS["open"]

# Wrong response templates with parts of the errors. transformers refuses them too.
WRONG: list[tuple[object, str]] = [
    ([], "is list, which has none as `response_template`"),
    ("text", "is str, which has none"),
    ({1: 2}, "the response template is of type dict; allowed is an object with names"),
    ({**template(CALLS), "version": 2}, "the version of the response template is 2; allowed is 1"),
    ({**template(CALLS), "verison": 1}, "the response template has the unknown key 'verison'"),
    ({**template(CALLS), "defaults": []}, "'defaults' of the response template is of type list"),
    ({"start_anchor": "x", "fields": []}, "'fields' of the response template is of type list"),
    (template({**CALLS, "opne": "x"}), "the field 'tool_calls' of the response template has the unknown key 'opne'"),
    (
        template({**CALLS, "content": "yaml"}),
        "'content' of the field 'tool_calls' of the response template is 'yaml'; allowed",
    ),
    (template({**CALLS, "open_pattern": "x"}), "has both 'open' and 'open_pattern'"),
    (template({**CALLS, "open": []}), r"'open' of .* is \[\]; allowed is a text, or a list of texts, none empty"),
    (template({**CALLS, "close": ["x", ""]}), "none empty"),
    (template({**CALLS, "close": 5}), "'close' of .* is 5"),
    (template({**TAGS, "open_pattern": 5}), "'open_pattern' of .* is 5; allowed is the text of a pattern"),
    (template({**CALLS, "join": 5}), "'join' of .* is 5"),
    (
        template(CALLS, content={"close": "x", "join": ""}),
        "'join' of .* is ''; allowed is text, and only with 'repeats'",
    ),
    (template({**CALLS, "transform_each": 1}), "'transform_each' of .* is 1; allowed are true and false"),
    (template({**CALLS, "transform_each": True, "transform": None}), "has 'transform_each', but no 'transform'"),
    (template({**CALLS, "transform": {"function": "a {content}"}}), "'transform' of .* has 'a {content}'"),
    (template({**TAGS, "transform": None}), "has the group 'name' in a pattern, but no 'transform'"),
    (template({**TAGS, "content_args": {}}), "has no 'tag_pattern'"),
    (template({**TAGS, "open_pattern": "<call (?P<name>"}), "a group that is not closed|which is not a pattern"),
    (template({**TAGS, "open_pattern": "*<"}), "a sign of repetition that follows nothing"),
    (template({**TAGS, "open_pattern": "<)"}), "a bracket that was not opened"),
    (template({**TAGS, "open_pattern": "<[a"}), "which is not a pattern that can be read: unterminated character set"),
]
# Response templates that transformers reads, but a format cannot express, with parts of the errors.
NOT_EXPRESSED: list[tuple[dict[str, Any], str]] = [
    ({"start_anchor": "x", "fields": {"content": {"close": "x"}}}, "it has no field 'tool_calls'"),
    (
        template(CALLS, plan={"open": "<p>", "close": "</p>"}),
        "the field 'plan' is not one of tool_calls, content, reasoning",
    ),
    (
        template(CALLS, thinking=IN_TAGS, reasoning=IN_TAGS),
        "the fields 'thinking' and 'reasoning' are both for reasoning",
    ),
    (template({k: v for k, v in CALLS.items() if k != "open"}), "the field 'tool_calls' has no 'open'"),
    (template(CALLS, thinking={"close": "x"}), "the field 'thinking' has no 'open'"),
    (template(CALLS, thinking={"open": "x"}), "the field 'thinking' is not closed by a text"),
    (template(CALLS, content={"content": "json"}), "the field 'content' is not text"),
    (template(CALLS, content={"transform": {"a": "{content}"}}), "the field 'content' is not text"),
    (template(CALLS, content={"repeats": True}), "the field 'content' is a list of texts"),
    (template(CALLS, content={"optional": False}), "the field 'content' is not 'optional'"),
    (template({**CALLS, "content": "kv-lines"}), "'content' of the field 'tool_calls' is 'kv-lines'; read are json"),
    (template({**CALLS, "content_args": {"unquoted_keys": True}}), "'unquoted_keys' in 'content_args' .* not JSON"),
    (template({**CALLS, "content_args": {"string_delims": [["'", "'"]]}}), "'string_delims' in 'content_args'"),
    (
        template({**CALLS, "content_args": {"string_delims": [["<", ">"]], "unquoted_keys": True}}),
        "both .* are read, the latter with one pair of equal texts",
    ),
    (
        template({**CALLS, "content_args": {"string_delims": [["'", "'"]], "unquoted_keys": True}}),
        "'string_delims' of the field 'tool_calls' is read only if a group holds the name",
    ),
    (
        template({**CALLS, "content_args": {"new": 1}}),
        "'new' in 'content_args' of the field 'tool_calls' is not known of 'json'",
    ),
    (
        template({**TAGS, "content_args": {**TAGS["content_args"], "value_parser": {"name": "int"}}}),
        "'value_parser' .* 'int'",
    ),
    (
        template({**TAGS, "content_args": {**TAGS["content_args"], "value_parser": {"name": "json"}}}),
        "without 'allow_non_json'",
    ),
    (template({**CALLS, "repeats": False}), "makes one call, which is not a list"),
    (template({**CALLS, "transform_each": True}), "makes a list of lists"),
    (template({**CALLS, "transform": []}), "'transform' of the field 'tool_calls' is not an object"),
    (template({**CALLS, "transform": {"function": "f"}}), "has 'f' as the function"),
    (template({**CALLS, "transform": {"function": []}}), "has no object as the function"),
    (template({**CALLS, "transform": {"function": {"name": "f"}}}), "does not take the name of a call from its text"),
    (template({**CALLS, "transform": {**WHOLE, "at": "{content.at}"}}), "has '{content.at}' beside the name"),
    (template({**CALLS, "transform": {**NAMED}}), "takes the name from 'name', which is not a group"),
    (template({**CALLS, "transform": {"name": "{content.a.n}", "arguments": "{content.b}"}}), "from different objects"),
    (
        template({**CALLS, "transform": {"name": "{content}", "arguments": "{content.b}"}}),
        "takes the name from the whole text",
    ),
    (
        template({**TAGS, "content_args": {**TAGS["content_args"], "tag_pattern": "x(?P<key>a)"}}),
        "the groups 'key' and 'value'",
    ),
    (template({**CALLS, "close": "}"}), "has no text by which it differs from what JSON may contain"),
    (template({**CALLS, "close": '"'}), "has no text by which it differs"),
    (template({**CALLS, "open": "<{id}>"}), "has the text '<{id}>', which stands for something else"),
    (
        template(
            {
                **CALLS,
                "close": "END",
                "repeats": False,
                "transform_each": True,
                "transform": {"id": "{id}", "name": "{name}", "arguments": "{arguments}"},
            }
        ),
        "an id may contain the text that ends one",
    ),
    (
        template(
            {
                **{k: v for k, v in CALLS.items() if k != "close"},
                "close_pattern": r"</(?P<name>\w+)>",
                "transform": NAMED,
            }
        ),
        "'close' of the field 'tool_calls' asks for characters of which none is known",
    ),
    (template(CALLS, content={"close_pattern": r"\s+"}), "has no text, so that any text may end there"),
]
# Patterns that are not read.
PATTERNS = (
    *(
        r"<call\b>",
        r"\B<call>",
        r"(?i)<call>",
        r"(?i:<call>)",
        r"(?<=x)<call>",
        r"(?!x)<call>",
        r"(?>x)<call>",
        r"(x)\1<call>",
    ),
    *(
        "(?:ab)+<call>",
        "(?:ab){2}<call>",
        "a++<call>",
        "<call>{e<=1}",
        "[[:alpha:]]<call>",
        "[[a]b]<call>",
        r"\h<call>",
    ),
    *("(?P<a>(?P<name>x))<call>", "(?P<name>(?=x))<call>", "(?P<name>a)?<call>", "(a|b|c)" * 5 + "<call>", "x" * 2001),
    "(" * 9 + "<call>" + ")" * 9,
)


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_what_is_not_a_response_template_is_refused_by_name(given: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        ToolFormat.from_response_template(given)


def test_transformers_refuses_most_of_it_too() -> None:
    from transformers.utils.chat_parsing import parse_response

    for given, message in WRONG:
        # It reads 1 as true, and takes a missing pattern for an error only once a call comes.
        if "transform_each' of" in message or "tag_pattern" in message or not isinstance(given, dict):
            continue
        with pytest.raises((ValueError, AttributeError, TypeError)):
            parse_response("x", given, prefix="")


@pytest.mark.parametrize(("given", "message"), NOT_EXPRESSED)
def test_what_a_format_cannot_express_is_refused_by_name(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"(?s)cannot be read from the response template: .*{message}"):
        ToolFormat.from_response_template(given)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns_that_are_not_read_are_refused_by_name(pattern: str) -> None:
    calls = {**CALLS, "open_pattern": pattern, "transform": NAMED if "(?P<" in pattern else WHOLE}
    del calls["open"]
    with pytest.raises(
        ConfigurationError, match="'open_pattern' of the field 'tool_calls' of the response template is "
    ):
        ToolFormat.from_response_template(template(calls))


def test_values_that_are_not_json_do_no_harm() -> None:
    transform: dict[Any, Any] = {**WHOLE, 1: 2, "two": {3, 4}, (5,): object()}
    odd = template({**CALLS, "transform": transform})
    first, second = (ToolFormat.from_response_template(odd) for _ in range(2))
    assert first == second
    assert first.call_begin == '<call>{"name": "'
    fields: list[dict[Any, Any]] = [
        {1: 2},
        {**CALLS, 5: 6},
        {**CALLS, "content_args": {7: 8}},
        {**CALLS, "content": []},
    ]
    for field in fields:
        with pytest.raises(ConfigurationError):
            ToolFormat.from_response_template(template(field))


def test_a_tokenizer_without_a_response_template_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="is SimpleNamespace, which has none as `response_template`; allowed are"
    ):
        ToolFormat.from_response_template(SimpleNamespace(chat_template="x"))
    with pytest.raises(ConfigurationError, match="its `response_schema` is of an earlier kind, which is not read"):
        ToolFormat.from_response_template(SimpleNamespace(response_schema={"type": "object"}))


def test_an_error_is_remembered_and_raised_again() -> None:
    # The pattern reads only the first character of a name.
    unread = template({**TAGS, "open_pattern": r"<call (?P<name>\w+?)"})
    with pytest.raises(ConfigurationError) as first:
        ToolFormat.from_response_template(unread)
    with pytest.raises(ConfigurationError) as second:
        ToolFormat.from_response_template(unread)
    assert str(first.value) == str(second.value)
    assert first.value is not second.value
