"""Turns that are given as text: they are read as their token ids are, as a whole or in pieces."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from logitkit import ToolCall, Tools, Vocabulary
from logitkit.errors import ConfigurationError
from logitkit.languages import any_text, regex, sequence, special
from logitkit.tools.turn import ArgumentsDelta, CallDone, CallStarted, ReasoningDelta, TextDelta
from tests.examples import examples
from tests.tools.test_turns import CALLS, NAMES, TEXTS
from tests.tools.turns import EOS, FORMATS, TOOLS, ids_of, same, tools_of, vocabulary

CHOICES = st.sampled_from(["auto", "required", "none", "ping"])


def cut(text: str, places: list[float]) -> list[str]:
    """Cut a text at some places, each a share of it."""
    at = sorted({0, len(text), *(int(share * len(text)) for share in places)})
    return [text[first:last] for first, last in pairwise(at)]


@settings(max_examples=examples(150), deadline=None)
@given(name=st.sampled_from(NAMES), calls=CALLS, choice=CHOICES, keep=st.floats(0, 1), junk=TEXTS, more=st.booleans())
def test_text_is_read_as_its_ids(
    name: str, calls: list[ToolCall], choice: str, keep: float, junk: str, more: bool
) -> None:
    form, tools = FORMATS[name], tools_of(name, choice)
    # Inside of a value, the name of a special token is text, but `ids_of` makes it the token.
    assume(not any(token in json.dumps(call.arguments) for call in calls for token in form.tokens))
    try:
        whole = tools.write(calls[: 1 if form.separator is None else 3])
    except ConfigurationError:
        whole = ""
    at = int(keep * len(whole))
    text = whole[:at] + junk + (whole[at:] if more else "")
    by_text, by_ids = tools.parse(text), tools.parse(ids_of(text, form), vocabulary(form))
    assert same(by_text.calls, [*by_ids.calls])
    for field in ("text", "reasoning", "rest", "problem", "complete"):
        assert getattr(by_text, field) == getattr(by_ids, field), field
    where = by_text.outside_at
    assert (where is None) == (by_ids.outside_at is None)
    if where is not None and by_ids.outside_at is not None:
        # Ids are bytes here, and the bytes of a character that go on may be what is not allowed.
        start, end = (len(ids_of(text[:n], form)) for n in (where, where + 1))
        inside = any(text[max(where - 40, 0) :].startswith(token) for token in form.tokens)
        assert start <= by_ids.outside_at < end or inside


@settings(max_examples=examples(150), deadline=None)
@given(
    name=st.sampled_from(NAMES),
    calls=CALLS,
    before=TEXTS,
    places=st.lists(st.floats(0, 1), max_size=9),
)
def test_text_in_pieces_is_read_as_a_whole(name: str, calls: list[ToolCall], before: str, places: list[float]) -> None:
    form, tools = FORMATS[name], tools_of(name)
    try:
        text = (before if form.trigger else "") + tools.write(calls[: 1 if form.separator is None else 3])
    except ConfigurationError:
        text = before
    stream = tools.stream()
    events = [event for piece in cut(text, places) for event in stream.feed(piece)]
    last, turn = stream.finish()
    events += last
    assert turn == tools.parse(text)
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == turn.text
    assert [event.call for event in events if isinstance(event, CallDone)] == list(turn.calls)
    started = [event.name for event in events if isinstance(event, CallStarted)]
    assert started[: len(turn.calls)] == [call.name for call in turn.calls]
    for index in range(len(turn.calls)):
        parts = [e for e in events if isinstance(e, ArgumentsDelta) and e.index == index]
        # In XML, no text stands for no arguments.
        assert "".join(part.text for part in parts) == (parts[-1].so_far if parts else "")


@pytest.mark.parametrize("name", ["hermes", "mistral", "harmony"])
def test_text_comes_as_soon_as_it_is_clear(name: str) -> None:
    form = FORMATS[name]
    assert form.reasoning_end is not None
    stream = Tools(TOOLS, form, reasoning=True).stream()
    stream.feed(form.reasoning_begin)
    assert stream.feed("Let me") == [ReasoningDelta("Let me")]
    assert stream.feed(form.reasoning_end[:3]) == []
    assert stream.feed("!") == [ReasoningDelta(form.reasoning_end[:3] + "!")]
    stream.feed(form.reasoning_end)
    text = tools_of(name).write([ToolCall("ping", {})])
    events = [event for character in text for event in stream.feed(character)]
    assert [type(event) for event in events if isinstance(event, CallStarted | CallDone)] == [CallStarted, CallDone]


@pytest.mark.parametrize(
    ("choice", "text", "outside"),
    [
        ("required", "Hello", 0),
        ("none", '<tool_call>\n{"name": "ping", "arguments": {}}\n</tool_call>', 10),
        ("ping", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "a"}}\n</tool_call>', 22),
        ("auto", '<tool_call>\n{"name": "get_weather", "arguments": {"city": 5}}\n</tool_call>', 58),
        ("auto", '<tool_call>\n{"name": "get_weather", "arguments": {}}\n</tool_call>', 50),
        ("auto", 'é<tool_call>\n{"name": "get_weather", "arguments": {"town": ""}}\n</tool_call>', 52),
    ],
)
def test_text_says_where_it_leaves_the_language(choice: str, text: str, outside: int) -> None:
    turn = tools_of("hermes", choice).parse(text)
    assert (turn.outside_at, turn.complete, turn.problem) == (outside, False, None)


def test_a_turn_that_may_not_end_is_not_complete() -> None:
    ids = [*b"Hello", EOS]
    tools = tools_of("hermes", "required")
    assert not tools.parse(ids, vocabulary(tools.form)).complete
    cut_off = tools_of("llama3_json").parse('{"name": "get_w')
    assert (cut_off.complete, cut_off.outside_at) == (False, None)
    assert not tools_of("llama3_json").parse([*b'{"name": "get_w'], vocabulary(FORMATS["llama3_json"])).complete
    answer = Tools(TOOLS, answer={"type": "integer"})
    assert answer.parse("12").complete
    assert answer.parse("-").complete is False


def test_text_without_its_special_tokens_is_ambiguous() -> None:
    tools = tools_of("mistral")
    assert tools.parse('get_weather{"city": "Bonn"}').ambiguous
    assert not tools.parse('[TOOL_CALLS]get_weather[ARGS]{"city": "Bonn"}').ambiguous
    # In these formats, whether the markers are special tokens depends on the model.
    hermes, coder = tools_of("hermes"), tools_of("qwen_coder")
    assert not hermes.parse("hello").ambiguous
    assert not hermes.parse('{"name": "x"}').ambiguous
    assert hermes.parse('\n{"name": "ping", "arguments": {}}\n').ambiguous
    assert not hermes.parse(hermes.write([ToolCall("ping", {})])).ambiguous
    assert coder.parse("\n<function=ping>\n</function>\n").ambiguous


def test_the_names_of_a_vocabulary_end_a_text() -> None:
    form, tools = FORMATS["mistral"], tools_of("mistral")
    special_tokens = {**vocabulary(form).special, "</s>": EOS}
    named = Vocabulary(vocabulary(form).tokens, eos_ids=[EOS], special=special_tokens)
    text = "[TOOL_CALLS]ping[ARGS]{}</s>"
    turn = tools.parse(text, named)
    assert (turn.problem, turn.outside_at, turn.complete) == (None, None, True)
    assert same(turn.calls, [ToolCall("ping", {})])
    assert tools.parse(text).problem == "a call does not begin as the format says"
    assert not tools.parse("[TOOL_CALLS]ping[ARGS]{</s>", named).complete


def test_languages_of_tokens_are_read_without_a_check() -> None:
    counted = Tools(TOOLS, answer=sequence(any_text(until=".", max_tokens=3), regex("a+")))
    turn = counted.parse("one two three.aa")
    assert (turn.text, turn.outside_at, turn.complete) == ("one two three.aa", None, True)
    named = Tools(TOOLS, answer=sequence(special("<ok>"), "!"))
    assert named.parse("<ok>!").complete
    assert named.parse("<no>!").outside_at == 1
    budget = Tools(TOOLS, reasoning=5)
    long = budget.parse("<think>\n" + "word " * 40 + "</think>\n\nHello")
    assert (long.outside_at, long.complete, long.text) == (None, True, "Hello")


def test_tools_that_cannot_be_compiled_are_read() -> None:
    refused = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a|b|ab)*.{0,300}(c|d).{0,300}$"}}}
    tools = Tools([{"name": "f", "parameters": refused}])
    turn = tools.parse(tools.write([ToolCall("f", {"x": "c"})]))
    assert (turn.calls[0].arguments, turn.outside_at, turn.complete) == ({"x": "c"}, None, True)


@pytest.mark.parametrize("given", [5, b"x", None])
def test_wrong_pieces_are_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match="allowed is a str"):
        tools_of("hermes").stream().feed(given)
    with pytest.raises(ConfigurationError, match="allowed are token ids"):
        tools_of("hermes").stream(vocabulary(FORMATS["hermes"])).feed(str(given))  # type: ignore[arg-type]


def test_turns_of_text_are_equal_to_turns_of_ids_but_for_positions() -> None:
    form, tools = FORMATS["deepseek_v31"], tools_of("deepseek_v31")
    text = "Hm." + tools.write([ToolCall("ping", {}), ToolCall("get_weather", {"city": "ä"})])
    by_text, by_ids = tools.parse(text), tools.parse([*ids_of(text, form), EOS], vocabulary(form))
    assert same(by_text.calls, [*by_ids.calls])
    assert replace(by_text, calls=()) == replace(by_ids, calls=())
    assert [text[slice(*call.span)].count("sep") for call in by_text.calls] == [1, 1]


def test_what_cannot_be_compiled_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Vocabulary] = []
    parameters = {"type": "object", "properties": {"a": {"type": "number", "multipleOf": 0.123456789}}}
    refused = Tools([{"name": "f", "parameters": parameters}])
    compile_ = Tools.constraint

    def noted(self: Tools, vocabulary: Vocabulary) -> Any:
        tried.append(vocabulary)
        return compile_(self, vocabulary)

    monkeypatch.setattr(Tools, "constraint", noted)
    for _ in range(3):
        assert refused.parse("hello").outside_at is None
    assert len(tried) == 1
