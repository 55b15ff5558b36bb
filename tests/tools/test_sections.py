"""Strings in CDATA sections: one spelling each, which XML parsers read alike."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.runtime.walk import Walk
from tests.examples import examples
from tests.tools.turns import SECTIONS, accepts, ids_of, vocabulary

# A string, a string or null, one of some strings, a short string, an array, and anything.
MEMBERS: dict[str, Any] = {
    "text": {"type": "string"},
    "maybe": {"type": ["string", "null"]},
    "word": {"enum": ["a<b", "a&", "ab", "\n"]},
    "short": {"type": "string", "maxLength": 2},
    "list": {"type": "array", "items": {"type": "string"}},
    "any": {},
}
TOOL = {"name": "say", "parameters": {"type": "object", "properties": MEMBERS}}
TOOLS = lk.Tools([TOOL], SECTIONS, choice="required")
# Pieces that are text, markup, or parts of a section.
PIECES = ("a", "<", "&", "\n", "]]", ">", "<![CDATA[", "</param>", "é")


def call_of(text: str, name: str = "text") -> str:
    """A call with one member, whose text is as given."""
    return f'<function name="say"><param name="{name}">{text}</param></function>'


def spelled(value: str) -> str | None:
    """A string as MiniCPM5's template writes it; None: no parser could read that."""
    if not any(one in value for one in "<&\n"):
        return value
    return None if "]]>" in value else f"<![CDATA[{value}]]>"


@pytest.mark.parametrize("name", ["text", "maybe", "short", "word", "any"])
def test_each_string_has_the_spelling_of_the_template_and_no_other(name: str) -> None:
    for size in range(3):
        for pieces in itertools.product(PIECES, repeat=size):
            value = "".join(pieces)
            allowed = {"short": len(value) <= 2, "word": value in MEMBERS["word"]["enum"]}.get(name, True)
            right = spelled(value)
            for text in (value, f"<![CDATA[{value}]]>"):
                is_right = text == right
                # The text may be the spelling of another string.
                other = spelled(text.removeprefix("<![CDATA[").removesuffix("]]>")) == text
                if is_right:
                    assert accepts(TOOLS, SECTIONS, call_of(text, name)) == allowed, (name, text)
                elif not other:
                    assert not accepts(TOOLS, SECTIONS, call_of(text, name)), (name, text)


@settings(max_examples=examples(80), deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join))
def test_what_is_written_is_read_as_an_xml_parser_reads_it(value: str) -> None:
    call = lk.ToolCall("say", {"text": value})
    if spelled(value) is None:
        with pytest.raises(ConfigurationError, match="ends its CDATA section"):
            TOOLS.write([call])
        return
    written = TOOLS.write([call])
    assert written == call_of(spelled(value) or "")
    for ids in (ids_of(written, SECTIONS), None):
        turn = TOOLS.parse(written) if ids is None else TOOLS.parse(ids, vocabulary(SECTIONS))
        assert (turn.complete, turn.outside_at, dict(turn.calls[0].arguments)) == (True, None, {"text": value})
    if "]]>" not in value:
        found = ElementTree.fromstring(written).find("param")
        assert found is not None
        assert (found.text or "") == value


def test_any_cut_of_a_stream_reads_the_same_call() -> None:
    written = TOOLS.write([lk.ToolCall("say", {"text": "</param>]]", "maybe": "<![CDATA[", "list": ["a<b"]})])
    wanted = TOOLS.parse(written)
    assert wanted.complete
    assert dict(wanted.calls[0].arguments) == {"text": "</param>]]", "maybe": "<![CDATA[", "list": ["a<b"]}
    for at in range(len(written)):
        stream = TOOLS.stream()
        stream.feed(written[:at])
        stream.feed(written[at:])
        assert stream.finish()[1] == wanted


def test_a_section_is_a_string_whatever_it_contains() -> None:
    tool = {"name": "say", "parameters": {"properties": {"value": {"type": ["string", "integer", "array"]}}}}
    tools = lk.Tools([tool], replace(SECTIONS, cdata=("\n",)), choice="required")
    for value in ("[1,\n2]", "\n5", "5\n"):
        written = tools.write([lk.ToolCall("say", {"value": value})])
        assert tools.parse(written).calls[0].arguments["value"] == value
        assert tools.parse(written).complete
    assert tools.parse(call_of("[1, 2]", "value")).calls[0].arguments["value"] == [1, 2]


def test_an_array_in_place_of_any_string_has_no_markup() -> None:
    assert accepts(TOOLS, SECTIONS, call_of("['ab']", "any"))
    assert not accepts(TOOLS, SECTIONS, call_of("['a<b']", "any"))
    with pytest.raises(ConfigurationError, match="contains '<', which only strings may contain here"):
        TOOLS.write([lk.ToolCall("say", {"any": ["a<b"]})])


@pytest.mark.parametrize("closing", [False, True])
def test_a_turn_can_be_completed_from_everywhere(closing: bool) -> None:
    constraint = TOOLS.constraint(vocabulary(SECTIONS), closing=closing)
    walk = Walk.start(constraint.automaton)
    for token in ids_of(call_of("<![CDATA[a<]]b]]>"), SECTIONS):
        walk = walk.after(token)
        assert walk.is_live
    assert walk.may_end()


def test_what_a_format_with_sections_does_not_take_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="cdata is"):
        replace(SECTIONS, arguments="json", strings="json")
    with pytest.raises(ConfigurationError, match="cdata is"):
        replace(SECTIONS, raw_strings="trimmed")
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"'}}
    with pytest.raises(ConfigurationError, match="strings in CDATA sections if they contain"):
        lk.Tools([{"type": "custom", "custom": {"name": "add", "format": grammar}}], SECTIONS)
    begun = lk.Tools([TOOL], replace(SECTIONS, cdata=("&",)), choice="required")
    with pytest.raises(ConfigurationError, match="begins a CDATA section"):
        begun.write([lk.ToolCall("say", {"text": "<![CDATA[x]]>"})])
    assert not begun.parse(call_of("<![CDATA[x]]>")).complete
