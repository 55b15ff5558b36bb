r"""Strings between delimiters, such as `city:<|"|>Bonn<|"|>`, against patterns, `jsonschema` and the parser of transformers."""

from __future__ import annotations

import itertools
import random
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from logitkit import ToolCall, ToolFormat, Tools, Vocabulary
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.delimited_strings import BARE_NAME, is_bare_name
from logitkit.languages.keyword_arguments import Delimited, KeywordArguments
from logitkit.runtime.walk import Walk
from logitkit.tools.delimited_values import DelimitedEnd, text_of_delimited, value_of_delimited
from tests.examples import examples
from tests.tools.turns import DELIMITED, DELIMITED_NAMES, DELIMITED_OBJECTS, EOS, ids_of, same, vocabulary
from tests.tools.written_response_templates import TEMPLATES
from tests.tools.written_templates import WrittenTemplate

# Of one character in each, so that all texts of a few of them can be listed; `Q` is a special token.
LETTERS = "bn:,{}<>"
PLAIN = Vocabulary([*(letter.encode() for letter in LETTERS), None], eos_ids=[len(LETTERS)])
WITH_TOKEN = Vocabulary([*PLAIN.tokens, None], eos_ids=[len(LETTERS)], special={"<>": len(LETTERS) + 1})
# The texts that may be written, as patterns, with S for a string of at most one character.
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {
            "type": "object",
            "properties": {"b": {"type": "string", "maxLength": 1}},
            "additionalProperties": False,
        },
        "b": {"type": "string", "maxLength": 1},
    },
    "additionalProperties": False,
}
B, N = "b:S", r"n:\{(?:b:S)?\}"


def pattern(order: str, string: str) -> re.Pattern[str]:
    first, second = (N, B) if order == "schema" else (B, N)
    return re.compile(f"(?:{first}(?:,{second})?|{second})?".replace("S", string), re.DOTALL)


@pytest.mark.parametrize("order", ["schema", "sorted", "sorted_ignoring_case"])
@pytest.mark.parametrize("kind", ["spelled", "token", "either"])
def test_all_short_texts_are_accepted_as_a_pattern_says(kind: str, order: Any) -> None:
    delimited = Delimited("<>", is_token=kind == "token", bare_names=True)
    language = KeywordArguments(SCHEMA, "{name}:", ",", "compact", delimited=delimited, member_order=order)
    vocabulary = PLAIN if kind == "spelled" else WITH_TOKEN
    constraint = language.constraint(vocabulary)
    # One character stands for the token in the pattern.
    letters = LETTERS + "Q" * (kind != "spelled")
    ids = {letter: number for number, letter in enumerate(LETTERS)} | {"Q": len(LETTERS) + 1}
    around = {"spelled": "<>", "token": "Q", "either": "(?:<>|Q)"}[kind]
    # A string does not contain the delimiter, which has two characters where it is not a token.
    judge = pattern(order, f"{around}[^Q]?{around}")
    start = Walk.start(constraint.automaton)

    def is_accepted(text: str) -> bool:
        walk = start
        for letter in text:
            walk = walk.after(ids[letter])
            if not walk.is_live:
                return False
        return bool(walk.may_end())

    for text in map("".join, itertools.chain(*(itertools.product(letters, repeat=n) for n in range(4)))):
        assert is_accepted(text) == bool(judge.fullmatch(text)), text
    allowed = texts_of(order, kind)
    assert len(allowed) > 40
    for text in allowed:
        assert is_accepted(text), text
    for text in allowed[::3]:
        for at, other in itertools.product(range(len(text)), ("", *letters)):
            changed = text[:at] + other + text[at + 1 :]
            assert is_accepted(changed) == bool(judge.fullmatch(changed)), changed


def texts_of(order: str, kind: str) -> list[str]:
    """Texts that are allowed: members with strings of at most one character."""
    delimiters = {"spelled": ["<>"], "token": ["Q"], "either": ["<>", "Q"]}[kind]
    strings = [a + s + b for s in ("", *LETTERS) for a in delimiters for b in delimiters]
    own = [f"b:{s}" for s in strings]
    nested = ["n:{}", *(f"n:{{{one}}}" for one in own)]
    draw = random.Random(1)
    pairs = [(draw.choice(nested), draw.choice(own)) for _ in range(30)]
    return [*own, *nested, *(",".join(pair if order == "schema" else pair[::-1]) for pair in pairs)]


GEMMA, NAMES = '<|"|>', "abcxyz_01"
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**12), 10**12)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab\"'\\<|>{}[]:, \n\u00e9", max_size=7).filter(lambda text: GEMMA not in text),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(NAMES, min_size=1, max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=examples(200), deadline=None)
@given(VALUES, st.booleans(), st.sampled_from(["json", "python", "none"]), st.booleans())
def test_what_is_written_is_read_whole_and_in_pieces(value: Any, bare: bool, literals: str, compact: bool) -> None:
    text = text_of_delimited(value, GEMMA, bare, literals, compact)
    assert repr(value_of_delimited(text, GEMMA, bare, literals)) == repr(value)
    if isinstance(value, str | list | dict):
        more, end = f"{text},x:{GEMMA}", DelimitedEnd(0, GEMMA)
        assert [at for at in range(len(more) + 1) if end.find(more[:at])][:1] == [len(text)]


@settings(max_examples=examples(200), deadline=None)
@given(st.dictionaries(st.text(NAMES, min_size=1, max_size=3), VALUES, max_size=3))
def test_transformers_reads_what_is_written(value: dict[str, Any]) -> None:
    content_parsers = pytest.importorskip("transformers.utils.chat_parsing.content_parsers")
    options = {"unquoted_keys": True, "string_delims": [[GEMMA, GEMMA]]}
    text = text_of_delimited(value, GEMMA, bare_names=True, literals="json", compact=True)
    assert repr(content_parsers.parse_content(text, "json", options)) == repr(value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{a}",
        "{a:}",
        "{:1}",
        "{a:1,a:2}",
        "{a:1,}",
        "[1 2]",
        "[1,]",
        "tru",
        "nul",
        '"a"',
        "{a b:1}",
        "1x",
        "[1]]",
    ],
)
def test_what_is_not_such_a_value_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        value_of_delimited(text, GEMMA, True, "json")


MEMBERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "z": {"type": ["string", "null"], "maxLength": 3, "pattern": '^[a-y<|>"]*$'},
        "B": {"type": "array", "items": {"enum": ["a", "", 1, True, None, {"q": 1, "P": "x"}]}, "uniqueItems": True},
        "a": {"type": "object", "properties": {"y": {"type": "integer"}, "X": {"const": "q"}}, "required": ["y"]},
    },
    "additionalProperties": False,
}
TOOL = {"name": "f", "parameters": MEMBERS}
ITEMS = st.sampled_from(["a", "", 1, True, None, "b", {"q": 1, "P": "x"}, {"q": 2}])
ARGUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "z": st.none() | st.text('ab<|>"z', max_size=4),
        "B": st.lists(ITEMS, max_size=3),
        "a": st.fixed_dictionaries({}, optional={"y": st.integers(0, 3), "X": st.sampled_from(["q", "r"]), "m": ITEMS}),
    },
)
KEYS = {"schema": None, "sorted": lambda name: name, "sorted_ignoring_case": str.lower}


@pytest.mark.parametrize("order", KEYS)
@pytest.mark.parametrize("form", [DELIMITED, DELIMITED_NAMES, DELIMITED_OBJECTS], ids=lambda form: form.name)
@settings(max_examples=examples(60), deadline=None)
@given(arguments=ARGUMENTS)
def test_the_schema_is_enforced_in_the_order_of_the_format(
    form: ToolFormat, order: Any, arguments: dict[str, Any]
) -> None:
    form = replace(form, member_order=order)
    tools = Tools([TOOL], form, choice="required")
    key = KEYS[order]

    def arranged(value: Any, listed: Any) -> Any:
        if not isinstance(value, dict):
            return [arranged(one, ["q", "P"]) for one in value] if isinstance(value, list) else value
        known = [name for name in listed if name in value]
        known = known if key is None else sorted(known, key=key)
        inside = {"a": ["y", "X"]}
        return {
            name: arranged(value[name], inside.get(name, []))
            for name in (*known, *[n for n in value if n not in known])
        }

    text = tools.write([ToolCall("f", arranged(arguments, MEMBERS["properties"]))])
    turn = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
    assert same(turn.calls, [ToolCall("f", arguments)])
    assert (turn.outside_at is None) == Draft202012Validator(MEMBERS).is_valid(arguments), text
    if len(arguments) > 1:
        # In another order of members, the same call is read, but the constraint does not allow it.
        names = [*arranged(arguments, MEMBERS["properties"])][::-1]
        parts = [tools.write([ToolCall("f", {name: arguments[name]})]) for name in names]
        begin, end = form.calls_begin + form.call_begin + "f" + form.name_end, form.call_end + form.calls_end
        swapped = begin + form.parameter_separator.join(part[len(begin) : -len(end)] for part in parts) + end
        turn = tools.parse(swapped)
        assert same(turn.calls, [ToolCall("f", arguments)])
        assert turn.outside_at is not None


@pytest.mark.parametrize("style", ["json", "json_string", "xml"])
def test_members_are_sorted_in_other_styles_too(style: Any) -> None:
    orders: tuple[tuple[Any, str], ...] = (("schema", "bCa"), ("sorted", "Cab"), ("sorted_ignoring_case", "abC"))
    schema = {
        "properties": {"b": {"type": "integer"}, "C": {"type": "integer"}, "a": {"properties": {"d": True, "D": True}}}
    }
    arguments = {"b": 1, "C": 2, "a": {"d": 1, "D": 2}}
    for order, names in orders:
        form = ToolFormat(
            name="x",
            call_begin="<",
            name_end=":",
            call_end=">",
            arguments=style,
            member_order=order,
            parameter_end="</p>",
        )
        tools = Tools([{"name": "f", "parameters": {"type": "object", **schema}}], form, choice="required")
        text = tools.write([ToolCall("f", arguments)])
        turn = tools.parse(text)
        assert same(turn.calls, [ToolCall("f", arguments)])
        assert [*turn.calls[0].arguments] == [*names]
        assert turn.outside_at is None
        other = replace(form, member_order="sorted" if order == "schema" else "schema")
        assert Tools(tools.tools, other, choice="required").parse(text).outside_at is not None


def test_a_response_template_with_delimiters_is_read_as_the_chat_template_writes_but_for_null() -> None:
    """The parser of transformers reads `null` only, sorted members or not, and names that are words."""
    written = WrittenTemplate(
        around=("", "<|tool_call>", "<tool_call|>", "", ""),
        head=("call:", "{", "}"),
        member=("", ":", ""),
        literals="none",
        separator=",",
        header="<|turn>model\n",
        end="<turn|>\n",
        reasoning=None,
        content_first=False,
        as_text=False,
        keywords=True,
        delimiter=GEMMA,
        bare=True,
        order="sorted_ignoring_case",
    )
    chat = ToolFormat.from_chat_template(written.template())
    assert (chat.literals, chat.member_order, chat.string_delimiter) == ("none", "sorted_ignoring_case", GEMMA)
    form = ToolFormat.from_response_template(TEMPLATES["delimited"], chat_template=written.template())
    assert (form.literals, form.member_order, form.parameter_names) == ("json", "sorted_ignoring_case", r"\w+")
    tool = {"name": "f", "parameters": {"properties": {"a-b": {"type": "null"}}}}
    assert Tools([tool], chat).write([ToolCall("f", {"a-b": None})]) == "<|tool_call>call:f{a-b:None}<tool_call|>"
    with pytest.raises(UnsupportedSchema, match="does not allow in names"):
        Tools([tool], form).constraint(vocabulary(form))
    with pytest.raises(ConfigurationError, match="cannot stand without quotes"):
        Tools([tool], form).write([ToolCall("f", {"a-b": None})])


def test_a_string_with_the_delimiter_cannot_be_written() -> None:
    tools = Tools(
        [{"name": "f", "parameters": {"properties": {"s": {"type": "string"}}}}], DELIMITED, choice="required"
    )
    with pytest.raises(ConfigurationError, match=r"contain '<\|\"\|>', which the format 'delimited' does not allow"):
        tools.write([ToolCall("f", {"s": f"a{GEMMA}b"})])
    constraint = tools.constraint(vocabulary(DELIMITED))
    special = vocabulary(DELIMITED).special
    begun = [special["<|tool_call>"], *b"call:f{s:", special[GEMMA], *b'a<|"|']
    walk = Walk.start(constraint.automaton)
    for token in begun:
        walk = walk.after(token)
    assert walk.is_live
    # Spelled in ordinary tokens, the delimiter is excluded too: a parser of text could not tell the two apart.
    assert not walk.after(ord(">")).is_live
    assert walk.after(special[GEMMA]).is_live
    only = {"name": "f", "parameters": {"properties": {"s": {"const": GEMMA}}, "required": ["s"]}}
    with pytest.raises(ConfigurationError, match="no object satisfies"):
        Tools([only], DELIMITED).constraint(vocabulary(DELIMITED))


@pytest.mark.parametrize("name", ["a b", "", "a:b", "{", 'a"', "a,b", "<x>", "\u00a0"])
def test_a_name_that_needs_quotes_is_refused(name: str) -> None:
    assert not is_bare_name(name)
    tool = {"name": "f", "parameters": {"type": "object", "properties": {name: {"type": "string"}}}}
    nested = {"name": "f", "parameters": {"type": "object", "properties": {"o": tool["parameters"]}}}
    for one, arguments in ((tool, {name: "x"}), (nested, {"o": {name: "x"}})):
        with pytest.raises(UnsupportedSchema, match="cannot be written without quotes"):
            Tools([one], DELIMITED).constraint(vocabulary(DELIMITED))
        with pytest.raises(ConfigurationError, match="cannot stand without quotes"):
            Tools([one], DELIMITED).write([ToolCall("f", arguments)])
    odd = {"type": "object", "patternProperties": {"^ +$": {"type": "string"}}, "additionalProperties": False}
    with pytest.raises(UnsupportedSchema, match=r"no name that 'patternProperties'"):
        Tools([{"name": "f", "parameters": {"properties": {"o": odd}}}], DELIMITED).constraint(vocabulary(DELIMITED))


def test_arguments_before_an_equals_sign_have_names_of_python() -> None:
    """A name without quotes may contain `=` and `)`, so it would not be clear where it ends."""
    schema: dict[str, Any] = {"properties": {"a-b": {"type": "integer"}}, "additionalProperties": False}
    tool = {"name": "f", "parameters": {"properties": {"o": schema}}}
    tools = Tools([tool], DELIMITED_OBJECTS, choice="required")
    call = ToolCall("f", {"o": {"a-b": 1}})
    text = tools.write([call])
    assert "o={a-b:" in text
    turn = tools.parse([*ids_of(text, DELIMITED_OBJECTS), EOS], vocabulary(DELIMITED_OBJECTS))
    assert (same(turn.calls, [call]), turn.outside_at) == (True, None)
    outside = Tools([{"name": "f", "parameters": schema}], DELIMITED_OBJECTS)
    with pytest.raises(UnsupportedSchema, match="'a-b' cannot stand before '=': it is not a name of Python"):
        outside.constraint(vocabulary(DELIMITED_OBJECTS))
    with pytest.raises(ConfigurationError, match="not a name of Python"):
        outside.write([ToolCall("f", {"a-b": 1})])
    open_names = {"name": "f", "parameters": {"propertyNames": {"pattern": "^a"}, "minProperties": 1}}
    constraint = Tools([open_names], DELIMITED_OBJECTS, choice="required").constraint(vocabulary(DELIMITED_OBJECTS))
    walk = Walk.start(constraint.automaton)
    for token in ids_of(DELIMITED_OBJECTS.calls_begin + DELIMITED_OBJECTS.call_begin + "f(ab", DELIMITED_OBJECTS):
        walk = walk.after(token)
    assert [letter for letter in "c1_=-)." if walk.after(ord(letter)).is_live] == ["c", "1", "_", "="]


@given(st.text(max_size=3))
def test_a_bare_name_is_read_to_its_end(name: str) -> None:
    found = BARE_NAME.match(f"{name}:1")
    assert found is not None
    assert (found.group() == name and name != "") == is_bare_name(name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"string_delimiter": None}, "string_delimiter is None"),
        ({"string_delimiter": "x|"}, "begins with no letter"),
        ({"string_delimiter": "{"}, "begins with no letter"),
        ({"string_delimiter": "|>|"}, "begins and ends with the same text"),
        ({"string_delimiter": "|" * 3}, "begins and ends with the same text"),
        ({"arguments": "json"}, "allowed are arguments 'python'"),
        ({"strings": "json"}, "are for strings 'delimited'"),
        ({"member_order": "reverse"}, "'reverse' is not allowed"),
    ],
)
def test_what_does_not_go_together_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        replace(DELIMITED, **change)


def test_recursive_objects_are_followed_with_special_tokens_as_delimiters() -> None:
    node: dict[str, Any] = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "inside": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["name"],
        "additionalProperties": False,
    }
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    tools = Tools([{"name": "f", "parameters": schema}, {"name": "g"}], DELIMITED, choice="required")
    value: dict[str, Any] = {"name": "a{", "inside": [{"name": ""}, {"name": "b", "inside": [{"name": "}"}]}]}
    text = tools.write([ToolCall("f", {"root": value}), ToolCall("g", {})])
    turn = tools.parse([*ids_of(text, DELIMITED), EOS], vocabulary(DELIMITED))
    assert (turn.outside_at, len(turn.calls)) == (None, 2)
    assert turn.calls[0].arguments == {"root": value}
    # Another language in which the special tokens have other numbers.
    more = replace(DELIMITED, tokens=("!", *DELIMITED.tokens), call_end="}!<tool_call|>")
    found = Tools(tools.tools, more, choice="required").parse(
        [*ids_of(text.replace("}<t", "}!<t"), more), EOS], vocabulary(more)
    )
    assert (found.outside_at, found.calls[0].arguments) == (None, {"root": value})
    wrong = text.replace('inside:[{name:<|"|><|"|>}', "inside:[{}")
    assert wrong != text
    assert tools.parse(wrong).outside_at is not None
