r"""Values that may end with `\n</parameter>` or with `</parameter>`: calls are read and written alike."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import logitkit as lk
from logitkit import ToolCall, Tools
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.languages import xml_arguments
from logitkit.languages.value_ends import ValueEnds
from logitkit.tools.turn import CallDone
from tests.examples import examples
from tests.tools.raw_text import EOS, TOKENS, VOCABULARY
from tests.tools.test_custom_tools import custom
from tests.tools.two_ends import ENDS, form_of, language_of, plain_reading, tool

PROPERTIES: dict[str, Any] = {
    "x": {"type": "string", "maxLength": 18},
    "y": {"type": "string"},
    "n": {"type": "integer"},
    "l": {"type": "array", "items": {"type": "string", "maxLength": 30}, "maxItems": 2},
    "z": {"type": ["string", "null"], "pattern": "^[^{\\[]*$", "maxLength": 6},
}


@pytest.mark.parametrize("ends", ENDS)
def test_generated_calls_are_read_alike(ends: str) -> None:
    """Random texts of the constraint, read by `parse`, by a stream and by the plain reader."""
    tools = Tools([tool(PROPERTIES, ["x"])], form_of(ends), choice="required", parallel=False)
    constraint = tools.constraint(VOCABULARY, closing=60)
    rng = random.Random(0)
    often = [
        at for at, token in enumerate(TOKENS) if token and re.fullmatch(rb"[ab\n <>/]|.*param.*|\n+", token, re.DOTALL)
    ]
    seen: set[str] = set()
    for _ in range(examples(60)):
        state = constraint.init_state(lk.Context.of([[]], vocabulary_size=len(TOKENS)))
        ids: list[int] = []
        wanted: list[int] = []
        while not ids or ids[-1] != EOS:
            allowed = set(constraint.allowed_tokens(state)[0].nonzero()[:, 0].tolist())
            likely = [at for at in often if at in allowed]
            if rng.random() < 0.1:
                # Bytes are their own ids.
                wanted = list(rng.choice(ENDS[ends][:2]).encode())
            if wanted and wanted[0] in allowed:
                token = wanted.pop(0)
            else:
                token, wanted = rng.choice(likely if likely and rng.random() < 0.7 else sorted(allowed)), []
            ids.append(token)
            state = constraint.advance(state, torch.tensor([token]))
        text = b"".join(TOKENS[at] or b"" for at in ids).decode()
        inside = text.removeprefix("<call>f\n").removesuffix("</call>")
        turn = tools.parse(ids, VOCABULARY)
        assert turn.complete
        (call,) = turn.calls
        if '"' not in inside:
            members = plain_reading(inside, ends)
            assert members is not None
            as_text = {name: v if isinstance(v, str) else json.dumps(v) for name, v in call.arguments.items()}
            assert as_text.keys() == dict(members).keys()
            for name, value in members:
                assert as_text[name] == value or (name in "nlz" and json.loads(value) == call.arguments[name])
            seen |= {end for end in ENDS[ends][:2] for _, value in members if value + end in inside}
        assert Draft202012Validator({"properties": PROPERTIES, "required": ["x"]}).is_valid(call.arguments)
        stream = tools.stream(VOCABULARY)
        events = [event for token in ids for event in stream.feed(token)] + stream.finish()[0]
        assert [event.call for event in events if isinstance(event, CallDone)] == [call]
        again = tools.parse(tools.write([call]))
        assert [(one.name, one.arguments) for one in again.calls] == [(call.name, call.arguments)]
    assert seen == set(ENDS[ends][:2])


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(list(ENDS)),
    st.fixed_dictionaries(
        {"x": st.text("a\n <>/é", max_size=18)},
        optional={
            "y": st.text("a\n <>/é") | st.sampled_from(["</parameter", "\n", "\n\n", " \n", "[", '["a"]\n']),
            "n": st.integers(),
            "l": st.lists(st.sampled_from(["a", "</parameter>", "\n", "\n</parameter>\n"]), max_size=2),
        },
    ),
)
def test_written_calls_are_read_again_and_allowed(ends: str, arguments: dict[str, Any]) -> None:
    tools = Tools([tool(PROPERTIES, ["x"])], form_of(ends), choice="required")
    text = tools.write([ToolCall("f", arguments)])
    turn = tools.parse(text)
    assert [call.arguments for call in turn.calls] == [arguments]
    assert turn.complete
    assert turn.outside_at is None


@pytest.mark.parametrize("ends", ENDS)
def test_a_custom_tool_with_a_grammar_ends_with_the_long_end(ends: str) -> None:
    """Its input may be any text of the grammar, such as one that ends with a line feed."""
    tools = Tools([custom("lark", 'start: "a"* "\\n"?')], form_of(ends), choice="required")
    for value in ("", "a", "a\n", "\n"):
        text = f"<call>run\n<parameter=input>\n{value}{ValueEnds.of(*ENDS[ends][:2]).longest}</call>"
        assert tools.constraint(VOCABULARY).matches(text)
        short = text.replace(ValueEnds.of(*ENDS[ends][:2]).longest, "</parameter>")
        assert value.endswith("\n") or not tools.constraint(VOCABULARY).matches(short)
        assert tools.parse(text).calls[0].arguments == {"input": value}
        written = tools.write([ToolCall("run", {"input": value})])
        assert tools.parse(written).calls[0].arguments == {"input": value}


@pytest.mark.parametrize(
    ("end", "also", "message"),
    [
        ("\n</p>", "</q>", "end_also is '</q>'; allowed are None and a text with the marker of end, '</p>'"),
        ("\n</p>", "\n</p>", "after other white space than"),
        ("\n</p>", "\n</p> ", "after other white space than"),
        ("\n</p>", "", "end_also is ''; allowed is a text whose marker is not empty"),
        ("\n</p>", 1, "end_also is 1 of type int; allowed is None and str"),
        ("</p>", "\ud800", "end_also has a lone surrogate"),
    ],
)
def test_ends_that_do_not_fit_are_refused(end: str, also: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(message)):
        xml_arguments({}, end=end, end_also=also)
    if isinstance(also, str):
        message = message.replace("end_also", "parameter_end_also").replace("of end", "of parameter_end")
        with pytest.raises(ConfigurationError, match=re.escape(message)):
            replace(form_of("short too"), parameter_end=end, parameter_end_also=also)


@pytest.mark.parametrize("ends", ENDS)
def test_a_short_string_or_an_array_is_refused_where_an_end_may_stand_in_json(ends: str) -> None:
    value = {"type": ["string", "array"], "items": {"type": "string", "maxLength": 30}, "maxLength": 4, "maxItems": 2}
    schema = {"type": "object", "properties": {"x": value}, "required": ["x"], "additionalProperties": False}
    language = language_of(schema, ends)
    if all("\n" in end for end in ENDS[ends][:2]):
        tools = Tools([tool({"x": value}, ["x"])], form_of(ends), choice="required")
        for end in ENDS[ends][:2]:
            for given, read in (('["a</parameter>"]', ["a</parameter>"]), ("[a", "[a"), ("[a\n", "[a\n")):
                text = f"<parameter=x>\n{given}{end}"
                if not (given.endswith("\n") and end == "</parameter>\n"):
                    assert language.constraint(VOCABULARY).matches(text)
                    assert tools.parse(f"<call>f\n{text}</call>").calls[0].arguments == {"x": read}
    else:
        with pytest.raises(UnsupportedSchema, match="may stand in a JSON string"):
            language.constraint(VOCABULARY)
