"""Arguments between tags: what is accepted, by an independent reader of such text and by the jsonschema package."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from logitkit import Vocabulary
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.languages import either, xml_arguments

BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
BEGIN, END = "<parameter=", "\n</parameter>"

STRINGS: list[Any] = [
    {"type": "string"},
    {"type": "string", "maxLength": 3},
    {"type": "string", "minLength": 2, "pattern": "^[a-c\n<]*$"},
    {"enum": ["a", "bc", "</parameter>", 7, None]},
    {"const": "x\n"},
    {"type": "string", "format": "date"},
]
OTHERS: list[Any] = [
    {"type": "integer", "minimum": 0},
    {"type": "boolean"},
    {"type": "array", "items": {"type": "string"}, "maxItems": 2},
    {"type": "object", "properties": {"k": {"type": "integer"}}, "additionalProperties": False},
    {"type": ["string", "null"], "maxLength": 4},
    {"type": ["string", "array"], "items": {"type": "integer"}, "pattern": "^[^{]*$", "maxLength": 3},
    {"anyOf": [{"type": "integer"}, {"type": "string", "minLength": 3}]},
    {
        "oneOf": [
            {"type": "object", "properties": {"k": {"type": "string"}, "l": {"type": "string"}}},
            {"type": "object", "properties": {"m": {"type": "string"}}},
        ]
    },
    {},
]
VALUES: list[Any] = [
    *(
        "",
        "a",
        "bc",
        "abc",
        "abcd",
        "x\n",
        "\n",
        "<",
        "7",
        "null",
        "[1]",
        "2024-02-30",
        "2024-02-29",
        "äö",
        "😀😀😀",
        "</parameter>",
    ),
    *(0, 7, -1, True, None, [], [1], ["</parameter>"], ["a", "b", "c"], {}, {"k": 1}, {"k": "1"}),
    *({"m": 1}, {"m": "1"}, {"k": "1", "m": 1}, {"m": "1", "k": 1}, {"k": 1, "m": 1}),
]


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def written(arguments: list[tuple[str, Any]]) -> str:
    return "\n".join(f"{BEGIN}{name}>\n{v if isinstance(v, str) else dumped(v)}{END}" for name, v in arguments)


def readings(text: str, raw_only: Callable[[str], bool]) -> Iterator[list[tuple[str, Any]]]:
    """All ways to read a text as members. Where any string is allowed, all values are raw text."""
    if not text.startswith(BEGIN) or ">\n" not in text:
        return
    name, value_on = text.removeprefix(BEGIN).split(">\n", 1)
    if not name or ">" in name:
        return
    at = value_on.find(END)
    while at >= 0:
        value, rest = value_on[:at], value_on[at + len(END) :]
        possible: list[Any] = [] if "</parameter>" in value else [value]
        try:
            parsed = json.loads(value)
            if not isinstance(parsed, str) and dumped(parsed) == value and (possible or not raw_only(name)):
                possible.append(parsed)
        except ValueError:
            pass
        following = [[]] if not rest else list(readings(rest[1:], raw_only)) if rest[0] == "\n" else []
        for one, others in itertools.product(possible, following):
            yield [(name, one), *others]
        at = value_on.find(END, at + 1)


def valid(schema: dict[str, Any], text: str) -> bool:
    """Whether some reading of a text satisfies the schema, with its members in order."""
    validator = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
    order = list(schema.get("properties", {}))
    others = schema.get("additionalProperties", {})

    def any_string(name: str) -> bool:
        return schema.get("properties", {}).get(name, others) in ({}, {"type": "string"})

    for members in readings(text, any_string) if text else iter([[]]):
        places = [order.index(name) if name in order else len(order) for name, _ in members]
        listed = [place for place in places if place < len(order)]
        if places != sorted(places) or len(set(listed)) != len(listed):
            continue
        # Unlisted names may be repeated, as in JSON, so each is judged by itself.
        known = {name: value for name, value in members if name in order}
        unlisted = [{name: value} for name, value in members if name not in order]
        if all(validator.is_valid({**known, **one}) for one in (unlisted or [{}])):
            return True
    return False


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], str]:
    names = draw(st.lists(st.sampled_from(["city", "a", "ab", "ü"]), unique=True, max_size=3))
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: draw(st.sampled_from(STRINGS + OTHERS)) for name in names},
        "required": [name for name in names if draw(st.booleans())],
    }
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.sampled_from([False, {"type": "string"}, {"type": "integer"}]))
    others = draw(st.sampled_from([[], [], ["z"], ["q", "z"]]))
    members = [(name, draw(st.sampled_from(VALUES))) for name in (*names, *others) if draw(st.integers(0, 4))]
    text = written(members)
    if text and draw(st.booleans()):
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + draw(st.sampled_from(["", "<", ">", "\n", "a", "1"])) + text[at + draw(st.integers(0, 1)) :]
    return schema, text


@settings(max_examples=300, deadline=None)
@given(cases())
def test_the_texts_are_those_of_an_independent_reader(case: tuple[dict[str, Any], str]) -> None:
    schema, text = case
    assert xml_arguments(schema).constraint(BYTES).nested_dfa().accepts(text.encode()) == valid(schema, text)


@pytest.mark.parametrize("schema", STRINGS + OTHERS, ids=str)
def test_each_value_in_each_schema(schema: dict[str, Any]) -> None:
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"], "additionalProperties": False}
    dfa = xml_arguments(whole).constraint(BYTES).nested_dfa()
    verdicts = [dfa.accepts(written([("v", value)]).encode()) for value in VALUES]
    assert verdicts == [valid(whole, written([("v", value)])) for value in VALUES]
    assert any(verdicts)
    assert not all(verdicts) or schema in ({}, {"type": "string"})


def test_other_tags() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]}
    language = xml_arguments(schema, begin='<p name="{name}">', end="</p>", separator="")
    dfa = language.constraint(BYTES).nested_dfa()
    assert dfa.accepts(b'<p name="a">x</p><p name="b">1</p>')
    assert not dfa.accepts(b'<p name="a">x</p>\n<p name="b">1</p>')
    assert not dfa.accepts(b'<p name="a">x</p></p>')


def test_counts_and_dependent_members_hold() -> None:
    members = {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}}
    schema = {
        "properties": members,
        "additionalProperties": False,
        "maxProperties": 2,
        "dependentRequired": {"a": ["c"]},
    }
    dfa = xml_arguments(schema).constraint(BYTES).nested_dfa()
    for chosen in itertools.chain.from_iterable(itertools.combinations("abc", size) for size in range(4)):
        text = written([(name, "x") for name in chosen])
        assert dfa.accepts(text.encode()) == (len(chosen) <= 2 and ("a" not in chosen or "c" in chosen)), chosen


def test_special_tokens_in_tags_may_be_tokens_or_spelled() -> None:
    tokens = [*(bytes([byte]) for byte in range(256)), None, None]
    vocabulary = Vocabulary(tokens, eos_ids=[256], special={"</parameter>": 257})
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    constraint = xml_arguments(schema).constraint(vocabulary)
    assert 257 in constraint.own_ids()
    assert constraint.nested_dfa().accepts(written([("a", "x")]).encode())


@pytest.mark.parametrize("name", ["", "a>b", ">"])
def test_a_name_that_would_end_its_tag_is_refused_with_its_pointer(name: str) -> None:
    with pytest.raises(UnsupportedSchema, match="cannot stand in the tag") as caught:
        xml_arguments({"properties": {name: {"type": "string"}}}).constraint(BYTES)
    assert caught.value.pointer == f"#/properties/{name}"


def test_raw_text_beside_a_value_that_nests_without_limit_is_refused_with_its_pointer() -> None:
    schema = {"properties": {"a/b": {"type": ["string", "array"], "maxLength": 20}}}
    with pytest.raises(UnsupportedSchema, match="same bracket") as caught:
        xml_arguments(schema).constraint(BYTES)
    assert caught.value.pointer == "#/properties/a~1b"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"begin": "<p>"}, "once"),
        ({"begin": "{name}{name}>"}, "once"),
        ({"begin": "<p={name}"}, "continues after it"),
        ({"end": " \n"}, "marker"),
        ({"end": "<<"}, "whose end is not its beginning"),
        ({"separator": 1}, "separator is 1"),
        ({"whitespace": "none"}, "allowed are"),
        ({"end": "\ud800"}, "UTF-8"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        xml_arguments({}, **arguments)


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"properties": {"n": {"type": "integer", "enum": ["1"]}}, "required": ["n"]}]
)
def test_a_schema_without_objects_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigurationError, match="no object satisfies the schema"):
        either(xml_arguments(schema), xml_arguments({})).constraint(BYTES)
