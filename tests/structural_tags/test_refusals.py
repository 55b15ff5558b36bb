"""Refused documents: each error says where it is, what was given and what is allowed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from logitkit.errors import ConfigurationError, PatternSyntaxError, UnsupportedSchema, VocabularyError
from logitkit.structural_tags import structural_tag_language
from tests.structural_tags.tokens import made, whole

ANY = {"type": "any_text"}
TAG = {"type": "tag", "begin": "<a>", "content": ANY, "end": "</a>"}
TRIGGERED = {"type": "triggered_tags", "triggers": ["<a"], "tags": [TAG]}
TOKENS = {"type": "token_triggered_tags", "trigger_tokens": ["<tool>"], "tags": [{**TAG, "begin": {"token": "<tool>"}}]}


def deep(levels: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "const_string", "value": "a"}
    for _ in range(levels):
        found = {"type": "optional", "content": found}
    return found


FORMATS: list[tuple[Any, str]] = [
    ([], "format is []; allowed is a format, which is an object with a 'type'"),
    ({"value": "a"}, "format: the format lacks its 'type'; allowed are const_string, json_schema"),
    ({"type": "any_txt"}, "format: the type 'any_txt' is not supported; did you mean 'any_text'? allowed are"),
    ({"type": 3}, "format: the type 3 is not supported; allowed are const_string"),
    (
        {"type": "sequence", "elements": [ANY, {"type": "peg", "grammar": "x"}]},
        "format.elements[1]: the type 'peg' is not supported; allowed are const_string",
    ),
    ({"type": "sequence", "elements": []}, "format.elements is []; allowed is a list with at least one item"),
    (
        {"type": "or", "elements": ANY},
        "format.elements is {'type': 'any_text'}; allowed is a list with at least one item",
    ),
    ({"type": "const_string"}, "format lacks the field 'value'"),
    ({"type": "const_string", "value": 1}, "format.value is 1; allowed is a text"),
    ({"type": "const_string", "value": "\ud800"}, "allowed is a text, without lone surrogates"),
    (
        {"type": "const_string", "valu": "a"},
        "has the unknown field 'valu'; did you mean 'value'? Allowed are type, value",
    ),
    ({"type": "any_text", "excludes": [""]}, "format.excludes[0] is ''; allowed is a text that is not empty"),
    ({"type": "any_text", "excludes": "ab"}, "format.excludes is 'ab'; allowed is a list"),
    (
        {"type": "any_text", "max_tokens": 3, "max_chars": 4},
        "format.max_tokens is 3; allowed is null if 'max_chars' is given",
    ),
    *(
        (
            {**TAG, "content": {"type": "any_text", "max_tokens": 3, "excludes": ["b", overlapping]}},
            f"format.content.excludes is ['b', {overlapping!r}]; allowed is a list of texts that do not overlap the end",
        )
        for overlapping in ("<", "/a", "a>", "x<", "xx</", "<<")
    ),
    ({"type": "any_text", "max_chars": 10**6}, "format.max_chars is 1000000; allowed is an integer up to 100000"),
    (
        {**TAG, "content": {"type": "any_text", "max_tokens": -1}},
        "format.content.max_tokens is -1; allowed is an integer from 0",
    ),
    (
        {**TAG, "content": {"type": "any_text", "max_tokens": 3, "max_chars": 4}},
        "format.content.max_tokens is 3; allowed is null if 'max_chars' is given",
    ),
    ({"type": "exclude_token", "tokens": []}, "format has the unknown field 'tokens'; did you mean"),
    ({"type": "exclude_token", "exclude_tokens": "<tool>"}, "format.exclude_tokens is '<tool>'; allowed is a list"),
    ({"type": "grammar", "grammar": 1}, "format.grammar is 1; allowed is a text"),
    ({"type": "regex", "pattern": 1}, "format.pattern is 1; allowed is a text"),
    (
        {"type": "json_schema", "json_schema": "{}"},
        "format.json_schema is '{}'; allowed is a JSON Schema: an object, true",
    ),
    (
        {"type": "json_schema", "json_schema": True, "style": "minimax_m3_xml"},
        (
            "format.style is 'minimax_m3_xml'; allowed is 'json', 'qwen_xml', 'minimax_xml', 'deepseek_xml', 'glm_xml', "
            "'kimi_k3_xml', 'cohere_xml'; other styles are not supported"
        ),
    ),
    ({"type": "json_schema", "json_schema": True, "any_order": 1}, "format.any_order is 1; allowed is true or false"),
    (
        {"type": "json_schema", "json_schema": True, "excludes": ["x"]},
        "format.excludes is ['x']; allowed is an empty list",
    ),
    (
        {"type": "json_schema", "json_schema": True, "max_whitespace_cnt": -1},
        "format.max_whitespace_cnt is -1; allowed is an integer from 0",
    ),
    (
        {"type": "repeat", "min": 3, "max": 2, "content": ANY},
        "format.max is 2; allowed is -1, which means no maximum, and",
    ),
    ({"type": "repeat", "min": True, "max": 2, "content": ANY}, "format.min is True; allowed is an integer from 0"),
    (
        {"type": "repeat", "min": 0, "max": 10**9, "content": ANY},
        "format.max is 1000000000; allowed is an integer up to",
    ),
    ({"type": "token", "token": -1}, "format.token is -1; allowed is a token: its id, an integer from 0, or its text"),
    ({"type": "token", "token": ""}, "format.token is ''; allowed is a text that is not empty"),
    ({"type": "any_tokens", "exclude_tokens": [1.5]}, "format.exclude_tokens[0] is 1.5; allowed is a token"),
    ({**TAG, "begin": 3}, "format.begin is 3; allowed is a text or a token format"),
    ({**TAG, "begin": {"type": "any_text"}}, "format.begin lacks the field 'token'"),
    ({**TAG, "begin": {"type": "regex", "token": 3}}, "format.begin.type is 'regex'; allowed is 'token'"),
    ({**TAG, "end": []}, "format.end is []; allowed is a text, a list with at least one text, or a token format"),
    ({**TAG, "end": ["a", 1]}, "format.end[1] is 1; allowed is a text"),
    ({**TAG, "content": None}, "format.content is None; allowed is a format"),
    ({**TRIGGERED, "triggers": []}, "format.triggers is []; allowed is a list with at least one item"),
    ({**TRIGGERED, "tags": []}, "format.tags is []; allowed is a list with at least one item"),
    ({**TRIGGERED, "tags": [ANY]}, "format.tags[0] lacks the field 'begin'"),
    ({**TRIGGERED, "tags": [{**TAG, "type": "or"}]}, "format.tags[0].type is 'or'; allowed is 'tag'"),
    ({**TRIGGERED, "at_least_one": "yes"}, "format.at_least_one is 'yes'; allowed is true or false"),
    (
        {**TRIGGERED, "triggers": ["b", "c"]},
        "format.tags[0].begin: '<a>' does not start with any of the triggers 'b', 'c'; exactly one is allowed",
    ),
    (
        {**TRIGGERED, "triggers": ["<", "b", "<a"]},
        "format.tags[0].begin: '<a>' starts with several of the triggers '<', '<a'; exactly one is allowed",
    ),
    (
        {**TRIGGERED, "tags": [{**TAG, "begin": {"token": "<tool>"}}]},
        "format.tags[0].begin: the token '<tool>' does not start with any of the triggers '<a'; exactly one is allowed",
    ),
    (
        {**TOKENS, "tags": [TAG]},
        "format.tags[0].begin: '<a>' does not start with any of the triggers the token '<tool>'",
    ),
    (
        {**TOKENS, "trigger_tokens": [280]},
        "the token '<tool>' does not start with any of the triggers the token 280; exactly one is allowed, named in the same way",
    ),
    ({"type": "tags_with_separator", "tags": [TAG]}, "format lacks the field 'separator'"),
    (
        {"type": "dispatch", "rules": [["a"]]},
        "format.rules[0] is ['a']; allowed is a list of two: a trigger",
    ),
    ({"type": "dispatch", "rules": [["", ANY]]}, "format.rules[0][0] is ''; allowed is a text that is not empty"),
    ({"type": "dispatch", "rules": [["a", []]]}, "format.rules[0][1] is []; allowed is a format"),
    ({"type": "dispatch", "rules": [["a", ANY]], "loop": None}, "format.loop is None; allowed is true or false"),
    (deep(64), f"format{'.content' * 64}: formats are nested more than 64 levels deep; allowed are 64"),
]


@pytest.mark.parametrize(("format_", "message"), FORMATS, ids=range(len(FORMATS)))
def test_a_format_is_refused_with_its_path(format_: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        structural_tag_language(whole(format_))


def test_a_token_and_other_text_do_not_begin_in_one_place() -> None:
    with pytest.raises(
        ConfigurationError, match=r"exclude_token in a structural tag\) and other text begin at the same point"
    ):
        made({"type": "sequence", "elements": [{"type": "star", "content": {"type": "exclude_token"}}, ANY]})


DOCUMENTS: list[tuple[Any, str]] = [
    (None, "document is None of type NoneType; allowed is a dict or JSON text"),
    ([], "document is [] of type list; allowed is a dict or JSON text"),
    ("{", "document is a string, but not JSON text"),
    ("[" * 100_000, "the document is nested more than"),
    ("3", "document is of type int"),
    ("true", "document is the JSON text 'true'; allowed is the text of an object"),
    ({"format": {"type": "const_string", "value": {1}}}, "the document contains {1}, which is not a JSON value"),
    ({"format": {3: 4}}, "the document has the key 3, a int"),
    ({}, "the document lacks the field 'format'"),
    ({"type": "tag", "format": ANY}, "type is 'tag'; allowed is 'structural_tag'; put a format into"),
    ({"formt": ANY}, "the document has the unknown field 'formt'; did you mean 'format'?"),
    ({"structures": [], "triggers": ["a"]}, "structures is []; allowed is a list with at least one item"),
    ({"structures": [{}]}, "the document lacks the field 'triggers'"),
    ({"structures": [{}], "triggers": ["a"]}, "structures[0] lacks the field 'begin'"),
    (
        {"structures": [{"begin": "a", "schema": 3, "end": "b"}], "triggers": ["a"]},
        "structures[0].schema is 3; allowed is a JSON Schema: an object, true, false, or its text",
    ),
    (
        {"structures": [{"begin": "a", "schema": "{", "end": "b"}], "triggers": ["a"]},
        "structures[0].schema: schema is a string, but not JSON text",
    ),
]


@pytest.mark.parametrize(("document", "message"), DOCUMENTS, ids=range(len(DOCUMENTS)))
def test_a_document_is_refused(document: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        structural_tag_language(document)


def test_patterns_and_schemas_are_refused_with_their_path() -> None:
    several = {"type": "sequence", "elements": [ANY, {"type": "regex", "pattern": "a(b"}]}
    with pytest.raises(PatternSyntaxError, match=r"^format\.elements\[1\]\.pattern: ") as caught:
        structural_tag_language(whole(several))
    assert caught.value.position == 1
    schema = {"items": {"type": "object", "maxProperties": 2}, "uniqueItems": True}
    unsupported = {"type": "optional", "content": {"type": "json_schema", "json_schema": schema}}
    with pytest.raises(UnsupportedSchema, match=r"^'uniqueItems' at format\.content\.json_schema#: "):
        made(unsupported)
    with pytest.raises(ConfigurationError, match=r"^format\.json_schema: "):
        made({"type": "json_schema", "json_schema": False})


def test_tokens_that_the_vocabulary_lacks() -> None:
    with pytest.raises(VocabularyError, match="the vocabulary has no token '<tol>'"):
        made({"type": "token", "token": "<tol>"})
    with pytest.raises(VocabularyError, match="there is no token 100000"):
        made({"type": "any_tokens", "exclude_tokens": [100_000]})


def test_arguments() -> None:
    with pytest.raises(ConfigurationError, match="whitespace is 'wide'; allowed are 'compact', 'spaced', 'bounded'"):
        structural_tag_language(whole(ANY), whitespace="wide")  # type: ignore[arg-type]
    for options in ({"whitespace": "wide"}, {"limits": 3}, {"closing": 0}, {"max_depth": 0}):
        with pytest.raises(ConfigurationError, match=next(iter(options))):
            made(ANY, **options)
    with pytest.raises(ConfigurationError, match="closing is 2, but the shortest text"):
        made({"type": "const_string", "value": "xyz"}, closing=2)
