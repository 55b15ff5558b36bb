"""Tags that name the type of a value, against an independent reader and the jsonschema package, and derived from templates."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError
from logitkit.languages import xml_arguments
from tests.tools.test_xml_arguments import BYTES, OTHERS, STRINGS, VALUES
from tests.tools.turns import TYPED, same
from tests.tools.written_templates import JSON

TYPES = {"string": str, "number": int | float, "boolean": bool, "null": type(None), "object": dict, "array": list}
TEXTS = [
    *(value if isinstance(value, str) else json.dumps(value) for value in VALUES),
    *('"a"', "True", "None", '{"m": "x"}', "[1]", "-1", "tru", " 1"),
]
# A value of each type.
EACH: list[Any] = ["5", 5, True, None, {}, []]
NAMES = ("string", "number", "boolean", "null", "object", "array")
WORDS = [NAMES, ("s", "n", "b", "n", "o", "o"), ("text", "json", "json", "json", "json", "json")]


def read(text: str, word: str, words: tuple[str, ...], literals: str) -> tuple[Any] | None:
    """Return the value of a text after a tag with a word; None if there is none."""
    if word == words[0]:
        return None if "</p>" in text else (text,)
    if literals == "python" and text in ("true", "false", "null"):
        return None
    constants = {"True": "true", "False": "false", "None": "null"} if literals == "python" else {}
    try:
        value = json.loads(constants.get(text, text))
    except ValueError:
        return None
    if text != text.strip() or isinstance(value, str):
        return None
    name = next(name for name in ("boolean", *NAMES) if isinstance(value, TYPES[name]))
    return (value,) if words[NAMES.index(name)] == word else None


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("literals", ["json", "python"])
def test_a_value_is_accepted_after_the_word_of_its_type(words: tuple[str, ...], literals: Any) -> None:
    verdicts = set()
    for schema in (*STRINGS, *OTHERS):
        whole = {"type": "object", "properties": {"x": schema}, "required": ["x"], "additionalProperties": False}
        arguments = xml_arguments(
            whole,
            begin='<p name="{name}" type="{kind}">',
            end="</p>",
            whitespace="spaced",
            kinds=words,
            literals=literals,
        )
        constraint = arguments.constraint(BYTES)
        judge = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        for text, word in product(TEXTS, {*words, "other"}):
            found = read(text, word, words, literals)
            expected = found is not None and judge.is_valid(found[0])
            assert constraint.matches(f'<p name="x" type="{word}">{text}</p>') == expected, (schema, word, text)
            verdicts.add(expected)
    assert verdicts == {True, False}


def test_a_value_that_is_not_what_its_tag_says_has_a_problem() -> None:
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {}, "y": {"type": "integer"}}}}
    tools = Tools([tool], TYPED)
    call = ToolCall("f", {"x": [None, {"a": True}], "y": 5})
    text = tools.write([call])
    assert same(tools.parse(text).calls, [call])
    wrong = text.replace('type="array"', 'type="object"')
    assert tools.parse(wrong).problem == "the value of 'x' is not what its tag says, 'object'"
    assert tools.parse(wrong).outside_at is not None
    for value, word in zip(EACH, NAMES, strict=True):
        assert f'key="x" type="{word}"' in tools.write([ToolCall("f", {"x": value})])


@pytest.mark.parametrize(
    "kinds",
    [
        ("a",),
        ("a", "a"),
        ("a", "ab"),
        ("a", "b", "c"),
        (*"abcde",),
        ("a", "b", "c", "d", "e", "a"),
        (*"abcd", "bx", "e"),
    ],
)
def test_wrong_words_are_refused(kinds: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError, match="a tuple of two or six texts, of which none begins another"):
        xml_arguments({}, begin='<p name="{name}" type="{kind}">', kinds=kinds)


MEMBER = (
    '{% for k, v in c.function.arguments.items() %}<|open|>argument key="{{ k }}" type="{{ TYPE }}"<|sep|>'
    "{{ v if v is string else v | tojson }}<|close|>argument<|sep|>{% endfor %}"
)
TYPE = (
    "'boolean' if v is boolean else 'null' if v is none else 'number' if v is number else 'string' if v is string "
    "else 'object' if v is mapping else 'array'"
)


def template(kind: str) -> str:
    """The shape of Kimi K3: parts of a message that all begin and end with the same tags."""
    member = MEMBER.replace("TYPE", kind)
    return (
        "{% for m in messages %}<|open|>message role=\"{{ m.role }}\"<|sep|>{% if m.role == 'user' %}{{ m.content }}{% else %}"
        "<|open|>think<|sep|>{{ m.reasoning_content }}<|close|>think<|sep|>"
        "<|open|>response<|sep|>{{ m.content }}<|close|>response<|sep|>{% if m.tool_calls %}<|open|>tools<|sep|>"
        '{% for c in m.tool_calls %}<|open|>call tool="{{ c.function.name }}" index="{{ loop.index }}"<|sep|>'
        + member
        + "<|close|>call<|sep|>{% endfor %}<|close|>tools<|sep|>{% endif %}{% endif %}<|close|>message<|sep|><|end_of_msg|>"
        '{% endfor %}{% if add_generation_prompt %}<|open|>message role="assistant"<|sep|><|open|>think<|sep|>{% endif %}'
    )


def test_tags_that_name_types_are_derived() -> None:
    form = ToolFormat.from_chat_template(template(TYPE))
    assert form.parameter_kinds == NAMES
    assert form.parameter_begin == '<|open|>argument key="{name}" type="{kind}"<|sep|>'
    assert (form.reasoning_begin, form.reasoning_opened) == ("<|open|>think<|sep|>", False)
    assert form.reasoning_end == "<|close|>think<|sep|><|open|>response<|sep|>"
    tool = {"name": "f", "parameters": {"type": "object", "properties": {"x": {}}}}
    tools = Tools([tool], form, reasoning=True)
    calls = [ToolCall("f", {"x": value}) for value in EACH]
    turn = tools.parse("Hm." + str(form.reasoning_end) + "Well." + tools.write(calls))
    assert same(turn.calls, calls)
    assert (turn.reasoning, turn.text, turn.problem, turn.outside_at) == ("Hm.", "Well.", None, None)
    # An answer ends with the tag with which calls begin.
    answer = "Hello.<|close|>response<|sep|><|close|>message<|sep|>"
    turn = Tools([tool], form).parse(answer)
    assert (turn.text, turn.calls, turn.problem, turn.outside_at) == (answer, (), None, None)


def test_two_words_are_derived_and_seven_are_not() -> None:
    form = ToolFormat.from_chat_template(template("'text' if v is string else 'json'"))
    assert form.parameter_kinds == ("text", "json")
    with pytest.raises(ConfigurationError, match="what stands before a number is not what stands before a string"):
        ToolFormat.from_chat_template(
            template(TYPE.replace("'number' if v is number", "'integer' if v is integer else 'number' if v is number"))
        )


def test_a_word_that_varies_with_the_value_is_not_derived() -> None:
    member = MEMBER.replace("TYPE", "'string' if v is string else v")
    with pytest.raises(ConfigurationError, match="what stands before a number"):
        ToolFormat.from_chat_template(JSON.template().replace("{{ c.function.arguments | tojson }}", member))
