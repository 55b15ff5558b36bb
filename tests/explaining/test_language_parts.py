"""The part of a language, of tools or of a structural tag that refuses a text."""

from __future__ import annotations

import pytest

import logitkit as lk
from logitkit.explaining.findings import Source
from logitkit.languages import any_text, choice, dispatch, json_schema, regex, repeat, sequence, special, tag
from logitkit.languages.language import Language
from logitkit.runtime.constraint import Constraint

VOCABULARY = lk.Vocabulary(
    [*(bytes([byte]) for byte in range(256)), None, None, None], eos_ids=[256], special={"<tool_call>": 257, "<b>": 258}
)
SMALL = json_schema({"type": "integer", "maximum": 20, "minimum": 10})
POINT = json_schema({"type": "object", "properties": {"n": {"type": "integer", "maximum": 5}}, "required": ["n"]})
CALL = tag("<call>", POINT, "</call>")
STRUCTURE = {
    "type": "structural_tag",
    "format": {
        "type": "triggered_tags",
        "triggers": ["<f="],
        "tags": [
            {"type": "tag", "begin": "<f=a>", "content": {"type": "json_schema", "json_schema": {"type": "null"}}, "end": "</f>"},
            {"type": "tag", "begin": "<f=b>", "content": {"type": "regex", "pattern": "[0-9]+"}, "end": "</f>"},
        ],
    },
}  # fmt: skip


def sources(constraint: Constraint, output: str) -> list[Source]:
    found = lk.explain(constraint, VOCABULARY, [], output).refusal
    assert found is not None
    return list(found.sources)


@pytest.mark.parametrize(
    ("language", "output", "expected"),
    [
        (choice(["yes", "no"]), "maybe", [("text", "one of 'yes', 'no'")]),
        (sequence("n = ", SMALL), "m", [("text", "n = ")]),
        (sequence("n = ", SMALL, ";"), "n = 30", [("schema", "maximum: 20")]),
        (sequence("n = ", SMALL, ";"), "n = 15,", [("text", ";")]),
        (sequence(regex("[a-z]+"), "!"), "ab?", [("pattern", "[a-z]+"), ("text", "!")]),
        (repeat(SMALL, 1, separator=", "), "12, 15, 9", [("schema", "minimum: 10")]),
        (dispatch({"<call>": CALL}), 'see <call>{"n":1}</call> <call>{"n":6', [("schema", "maximum: 5")]),
        (sequence(special("<b>"), any_text(until=special("<b>")), SMALL), "<b>text<b>99", [("schema", "maximum: 20")]),
        (sequence(special("<b>"), "x"), "x", [("text", "<b>")]),
    ],
)
def test_the_innermost_part_is_named(language: Language, output: str, expected: list[tuple[str, str]]) -> None:
    """Parts that may come next are listed, those that have begun first."""
    found = sources(language.constraint(VOCABULARY), output)
    assert [(source.kind, source.text) for source in found] == expected


def test_there_is_no_source_where_no_part_refuses() -> None:
    """A third value would be legal for its part."""
    found = sources(repeat(SMALL, 1, 2, separator=", ").constraint(VOCABULARY), "12, 15, 19")
    assert not found


def get_weather(city: str, days: int = 1) -> str:
    """Return the weather.

    Args:
        city: The city.
        days: For how many days.
    """
    return f"{city}: sun, {days}"


def get_time(zone: str) -> str:
    """Return the time.

    Args:
        zone: The time zone.
    """
    return zone


HERMES = '<tool_call>\n{"name": "'
QWEN = "<tool_call>\n<function=get_weather>\n"
ROME = "<parameter=city>\nRome\n</parameter>\n"


@pytest.mark.parametrize(
    ("form", "output", "pointer", "path", "tool"),
    [
        ("hermes", f'{HERMES}get_weather", "arguments": {{"city": 3', "/properties/city/type", "/city", "get_weather"),
        ("hermes", f'{HERMES}get_weather", "arguments": {{"days": 3', "/required", "", "get_weather"),
        ("hermes", f'{HERMES}get_time", "arguments": {{"city": "x"', "/additionalProperties", "", "get_time"),
        ("hermes", f'{HERMES}get_moon", "argu', None, None, None),
        ("qwen_coder", f"{QWEN}{ROME}<parameter=days>\nx", "/properties/days/type", "/days", "get_weather"),
        ("qwen_coder", f"{QWEN}</function>", "/required", "", "get_weather"),
        ("qwen_coder", f"{QWEN}<parameter=town>", "/additionalProperties", "", "get_weather"),
    ],
)  # fmt: skip
def test_a_call_names_the_tool_and_the_keyword(
    form: str, output: str, pointer: str | None, path: str | None, tool: str | None
) -> None:
    """The special token is written as a token."""
    constraint = lk.Tools([get_weather, get_time], format=form).constraint(VOCABULARY)
    source = sources(constraint, output)[0]
    assert (source.pointer, source.path, source.tool) == (pointer, path, tool)
    if tool is None:
        assert (source.kind, source.text) == ("tool", "the name of a tool: get_weather, get_time")
    refusal = lk.explain(constraint, VOCABULARY, [], output).refusal
    assert refusal is not None
    assert refusal.open_brackets == ("{{" if form == "hermes" and tool is not None else "")
    # An answer before the call may have brackets too.
    answer = lk.explain(constraint, VOCABULARY, [], f'See [1] and {{"a}}: "{output}').refusal
    assert answer is not None
    assert answer.open_brackets == refusal.open_brackets


@pytest.mark.parametrize(
    ("output", "kind", "text"),
    [
        ("so <f=c>", "text", "a>"),
        ("so <f=a>7", "schema", 'type: "null"'),
        ("so <f=b>x", "pattern", "[0-9]+"),
        ("<f=b>12<", "text", "</f>"),
    ],
)
def test_a_structural_tag_names_its_part(output: str, kind: str, text: str) -> None:
    """Tags stand in free text."""
    found = sources(lk.from_structural_tag(STRUCTURE, VOCABULARY), output + "x")
    assert (kind, text) in [(source.kind, source.text) for source in found]


def test_a_schema_after_a_marker_is_named() -> None:
    """The text before the marker is left out of the path."""
    constraint = lk.then(None, lk.JsonSchema({"type": "integer", "maximum": 5}, VOCABULARY), "</think>")
    assert sources(constraint, "hm</think>7")[0].pointer == "/maximum"
