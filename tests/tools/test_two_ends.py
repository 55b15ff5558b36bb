r"""Values that may end with `\n</parameter>` or with `</parameter>`: masks, and an independent reader of what is written."""

from __future__ import annotations

import itertools
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
from logitkit import ToolCall, ToolFormat, Tools
from logitkit.compiler.nested_grammars import instance_builder
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.string_set import StringSet
from logitkit.languages import Language, dispatch, sequence, xml_arguments, xml_members
from logitkit.languages.value_ends import ValueEnds
from logitkit.tools.turn import CallDone
from tests.examples import examples
from tests.in_step import masks_in_step
from tests.tools.test_counted_xml import EOS, SCHEMAS, TOKENS, UNCOUNTED, VOCABULARY, counts, schema_of, walk
from tests.tools.test_custom_tools import custom

# The end that is written, the other end, and the text between two members.
ENDS = {
    "short too": ("\n</parameter>", "</parameter>", "\n"),
    "long too": ("</parameter>", "\n</parameter>", "\n"),
    "line feed after": ("\n</parameter>\n", "</parameter>\n", ""),
    "much longer too": ("</parameter>", "\n\n</parameter>\n", "\n"),
    "unlike": (" </parameter>", "\n</parameter>", "\n"),
}
LONG = {"type": "string", "maxLength": 64}


def language_of(schema: Any, ends: str) -> Language:
    end, also, separator = ENDS[ends]
    return xml_arguments(schema, end=end, end_also=also, separator=separator)


def form_of(ends: str) -> ToolFormat:
    end, also, _ = ENDS[ends]
    return ToolFormat(
        name="own",
        call_begin="<call>",
        name_end="\n",
        call_end="</call>",
        trigger="<call>",
        arguments="xml",
        parameter_end=end,
        parameter_end_also=also,
    )


def tool(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": "f", "description": "A function.", "parameters": schema}}


def plain_reading(text: str, ends: str) -> list[tuple[str, str]] | None:
    """Read the members of a call with `str.split`; None if there is something else."""
    end, also, _ = ENDS[ends]
    members = []
    while text:
        if not text.startswith("<parameter=") or ">\n" not in text or "</parameter>" not in text:
            return None
        name, text = text.removeprefix("<parameter=").split(">\n", 1)
        value, text = text.split("</parameter>", 1)
        for one in sorted((end, also), key=lambda one: one.index("<"), reverse=True):
            before, after = one.split("</parameter>")
            if value.endswith(before):
                break
        else:
            return None
        if not text.startswith(after):
            return None
        members.append((name, value.removesuffix(before)))
        text = text.removeprefix(after)
    return members


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", [*SCHEMAS, *UNCOUNTED])
def test_masks_are_those_without_counting(name: str, ends: str) -> None:
    language = language_of(schema_of(name), ends)
    # White space after the marker comes too late to be text, so a text that is too short could not always go on.
    late = any(end[-1].isspace() for end in ENDS[ends][:2])
    assert counts(language) == (name in SCHEMAS and not (name == "shortest" and late))
    for seed in range(examples(8)):
        walk(language, seed, 60)


@pytest.mark.parametrize("name", ["two", "pattern", "any text", "beside any text"])
def test_masks_without_fragments(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for ends in ENDS:
        language = language_of(schema_of(name), ends)
        one = language.constraint(VOCABULARY)
        with monkeypatch.context() as patched:
            patched.setattr(xml_members, "text_fragment", lambda *_: None)
            patched.setattr(StringSet, "counts", lambda *_: False)
            other = language.constraint(VOCABULARY, limits=replace(one.limits, work=one.limits.work + 1))
            assert other.automaton.counting is None
        for seed in range(examples(8)):
            compare(one, other, seed)


def compare(one: Any, other: Any, seed: int) -> None:
    """Compare the masks of the first tokens of a random text."""
    try:
        for legal, same in masks_in_step(one, other, seed, 60):
            assert torch.equal(legal, same)
    except pytest.fail.Exception:
        # A text without a limit need not have ended.
        pass


@pytest.mark.parametrize("ends", ENDS)
def test_masks_of_texts_that_are_called(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_builder, "LARGE_INSTANCES", 0)
    for name in ("two", "any text"):
        arguments = language_of(schema_of(name), ends)
        language = sequence(arguments, "|", dispatch({"<call>": sequence("<call>", arguments, "</call>")}))
        for seed in range(examples(8)):
            walk(language, seed, 80)


@pytest.mark.parametrize("ends", ENDS)
def test_counted_text_ends_in_time(ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {"properties": {"x": LONG, "y": LONG}, "required": ["x"], "additionalProperties": False}
    language = language_of({"type": "object", **schema}, ends)
    budgets = (12, 30, 90)
    counted = [language.constraint(VOCABULARY, closing=budget) for budget in budgets]
    assert counted[0].automaton.counting is not None
    monkeypatch.setattr(StringSet, "counts", lambda *_: False)
    limits = replace(counted[0].limits, work=counted[0].limits.work + 1)
    for budget, one in zip(budgets, counted, strict=True):
        other = language.constraint(VOCABULARY, closing=budget, limits=limits)
        for seed in range(examples(8)):
            for place, (legal, exact) in enumerate(masks_in_step(one, other, seed, budget)):
                # With some counts, the end may take fewer tokens than with all.
                assert not (legal & ~exact).any()
                if budget - place > 20:
                    assert torch.equal(legal, exact)


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize(
    "value",
    [
        {"type": "string"},
        {"type": "string", "maxLength": 2},
        {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a*\n?$"},
        {"enum": ["a", "a\n", "\n\n", " "]},
        {"type": "string", "pattern": "\n$"},
    ],
)
def test_short_texts_are_those_of_a_plain_reader(value: dict[str, Any], ends: str) -> None:
    """All texts of up to five characters before a marker."""
    schema = {"type": "object", "properties": {"x": value}, "required": ["x"], "additionalProperties": False}
    constraint = language_of(schema, ends).constraint(VOCABULARY)
    # In `re`, `$` also matches before a line feed at the end.
    validator = Draft202012Validator(json.loads(json.dumps(value).replace("$", r"\\Z")))
    after = {end.split("</parameter>")[1] for end in ENDS[ends][:2]}
    for size in range(6):
        for characters in itertools.product("a\n ", repeat=size):
            for tail in after:
                text = f"<parameter=x>\n{''.join(characters)}</parameter>{tail}"
                read = plain_reading(text, ends)
                valid = read is not None and validator.is_valid(read[0][1])
                assert constraint.matches(text) == valid, text


@pytest.mark.parametrize("ends", ENDS)
def test_tokens_over_a_whole_text(ends: str) -> None:
    """From inside of the tag, from the byte before the text, and from its first character to its end, at the bounds."""
    texts = ["a" * size + feeds for size in range(16, 23) for feeds in ("", "\n", "\n\n")]
    over = [f"{text}{end}" for text in texts for end in ENDS[ends][:2]]
    tokens = [
        *(bytes([byte]) for byte in range(256)),
        *(start + text.encode() for start in (b">\n", b"\n", b"") for text in over),
    ]
    vocabulary = lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)])
    bounds = {"least": 0, "most": 20} if any(end[-1].isspace() for end in ENDS[ends][:2]) else {"least": 17, "most": 60}
    for least, most in {(0, 20), tuple(bounds.values())}:
        value = {"type": "string", "minLength": least, "maxLength": most}
        schema = {"type": "object", "properties": {"x": value}, "required": ["x"], "additionalProperties": False}
        constraint = language_of(schema, ends).constraint(vocabulary)
        assert constraint.automaton.counting is not None
        start = "<parameter=x>\n"
        for cut in (2, 1, 0):
            state = constraint.init_state(lk.Context.of([[]], vocabulary_size=len(tokens) + 1))
            for byte in start[: len(start) - cut].encode():
                state = constraint.advance(state, torch.tensor([byte]))
            allowed = constraint.allowed_tokens(state)[0].tolist()
            for at, token in list(enumerate(tokens))[256:]:
                if not start.encode().endswith(token[:cut]) or token[cut : cut + 1] != b"a":
                    continue
                # The long end may go on with a line feed after the marker.
                reads = [plain_reading(start + token[cut:].decode() + after, ends) for after in ("", "\n")]
                assert allowed[at] == any(read and least <= len(read[0][1]) <= most for read in reads), token


@pytest.mark.parametrize("least", [0, 17])
@pytest.mark.parametrize("ends", ["short too", "long too", "much longer too"])
def test_the_fragment_holds_the_texts_of_a_plain_reader(least: int, ends: str) -> None:
    """Lengths around both bounds, with 0 to 3 line feeds, and with parts of the marker as text."""
    value = {"type": "string", "minLength": least, "maxLength": 60}
    schema = {"type": "object", "properties": {"x": value}, "required": ["x"]}
    language = language_of({**schema, "additionalProperties": False}, ends)
    constraint = language.constraint(VOCABULARY)
    found = set()
    for size in (*range(least - 1 if least else 0, least + 14), *range(44, 64)):
        for part in ("", "</parameter", "\n</p"):
            for feeds in range(4):
                text = f"<parameter=x>\n{'a' * size}{part}{chr(10) * feeds}</parameter>"
                for after in ("", "\n"):
                    read = plain_reading(text + after, ends)
                    valid = read is not None and least <= len(read[0][1]) <= 60
                    assert constraint.matches(text + after) == valid
                    found.add(valid)
    assert found == {True, False}


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
