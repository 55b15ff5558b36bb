"""Turns: what is written is accepted and read as the same calls, in each format; where a turn breaks is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError
from logitkit.tools.formats import TOOL_FORMATS
from logitkit.tools.turn import ArgumentsDelta, CallDone, CallStarted, TextDelta, Turn
from tests.examples import examples
from tests.tools.turns import EOS, FORMATS, TOOLS, accepts, ids_of, ping, same, tools_of, vocabulary

NAMES = list(FORMATS)
MARKUP = [
    "</tool_call>",
    "</parameter>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|end|>",
    "</think>",
    "<tool_call>",
    "\n</parameter>\n",
]
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ['"', "\\", "\n", "\n\n", "", "null", "5", "😀", "ä\u2028", '{"a": 1}', "}\n</tool_call>", *MARKUP]
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
CALLS = st.lists(
    st.one_of(
        st.builds(ToolCall, st.just("ping"), st.just({})),
        st.builds(
            ToolCall,
            st.just("get_weather"),
            st.fixed_dictionaries(
                {"city": TEXTS}, optional={"days": st.integers(-99, 99), "unit": st.sampled_from("CF")}
            ),
        ),
        st.builds(
            ToolCall,
            st.just("save"),
            st.fixed_dictionaries(
                {"note": st.dictionaries(st.text(max_size=4), JSON, max_size=2), "tags": st.lists(TEXTS, max_size=2)},
                optional={"title": st.none() | TEXTS},
            ),
        ),
    ),
    min_size=1,
    max_size=3,
)


def test_all_names_are_known() -> None:
    known = ["qwen_coder", "deepseek_v31", "harmony", "mistral", "hermes", "llama3_json", "json"]
    assert list(TOOL_FORMATS) == known
    own = ["listed", "numbered", "keywords", "told", "bare", "named", "quoted", "twice", "shown", "shown_tags", "ascii"]
    own += ["between", "typed", "sections", "delimited", "delimited_names", "delimited_objects"]
    assert [*known, *own] == NAMES


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(120), deadline=None)
@given(calls=CALLS)
def test_what_is_written_is_accepted_and_read_as_the_same_calls(name: str, calls: list[ToolCall]) -> None:
    check_what_is_written(tools_of(name), calls)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(40), deadline=None)
@given(calls=CALLS)
def test_so_is_what_is_written_without_white_space(name: str, calls: list[ToolCall]) -> None:
    check_what_is_written(compact_tools_of(name), calls)


@cache
def compact_tools_of(name: str) -> Tools:
    """The tools in a format whose values have no white space, so that each is compiled once."""
    return Tools(TOOLS, replace(FORMATS[name], whitespace="compact"))


def check_what_is_written(tools: Tools, calls: list[ToolCall]) -> None:
    """Check that some calls, if they can be written, are accepted and read as the same ones."""
    form = tools.form
    if form.separator is None:
        calls = calls[:1]
    try:
        text = tools.write(calls)
    except ConfigurationError as error:
        if form.delimited is not None:
            wrong = f"contain {form.string_delimiter!r}" in str(error) or "cannot be written" in str(error)
            assert wrong
            return
        assert form.arguments == "xml"  # the other formats can write any string
        assert f"contains {form.parameter_ends.marker!r}" in str(error) or "would be read as" in str(error)  # noqa: PT017
        return
    turn = tools.parse([*ids_of_calls(text, calls, form), EOS], vocabulary(form))
    assert same(turn.calls, calls)
    assert (turn.problem, turn.outside_at, turn.complete, turn.rest) == (None, None, True, "")
    assert same(tools.parse(text).calls, calls)


def ids_of_calls(text: str, calls: list[ToolCall], form: ToolFormat) -> list[int]:
    """The ids of written calls: in strings, names of special tokens are spelled."""
    spelled = [
        value for call in calls for value in strings(call.arguments) if any(name in value for name in form.tokens)
    ]
    if not spelled:
        return ids_of(text, form)
    found: list[int] = []
    special = vocabulary(form).special
    depth, quoted, escaped = 0, False, False
    while text:
        name = next((name for name in form.tokens if text.startswith(name)), None) if not depth else None
        piece = name or text[0]
        found.extend([special[name]] if name else piece.encode())
        if not name:
            if quoted:
                quoted, escaped = (escaped or piece != '"'), piece == "\\" and not escaped
            elif piece == '"':
                quoted = depth > 0
            else:
                depth += (piece in "{[") - (piece in "}]")
        text = text[len(piece) :]
    return found


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for inside in pair for text in strings(inside)]
    return (
        [text for inside in value for text in strings(inside)]
        if isinstance(value, list)
        else [value] * isinstance(value, str)
    )


@pytest.mark.parametrize("name", NAMES)
def test_with_one_byte_of_the_markup_changed_it_is_not(name: str) -> None:
    form, required = FORMATS[name], tools_of(name, "required")
    call = ToolCall("get_weather", {"city": "Bonn"})
    text = required.write([call])
    in_json = form.arguments.startswith("json")
    start = text.index('"{' if form.arguments == "json_string" else '{"city"') if in_json else text.index("Bonn")
    stop = text.index("}", start) + 1 if in_json else start + 4
    assert accepts(required, form, text)
    # Another id is as good.
    ids = {
        at for id_ in ("000000000", "call00000") if id_ in text for at in range(text.index(id_), text.index(id_) + 9)
    }
    for at in sorted({*range(start), *range(stop, len(text))} - ids):
        for other in ("x", " ", ""):
            changed = text[:at] + other + text[at + 1 :]
            if changed != text:
                assert not accepts(required, form, changed), changed
                assert not same(required.parse(changed).calls, [call]) or required.parse(changed).problem, changed


@pytest.mark.parametrize("name", NAMES)
def test_text_alone_and_text_before_calls(name: str) -> None:
    form, tools = FORMATS[name], tools_of(name)
    turn = tools.parse(ids_of(form.text_begin + "Hello < there [", form), vocabulary(form))
    assert (turn.text, turn.calls, turn.problem, turn.outside_at) == ("Hello < there [", (), None, None)
    text = tools.write([ToolCall("ping", {})])
    turn = tools.parse([*ids_of("Let me see.\n" + text, form), EOS], vocabulary(form))
    if form.trigger is not None:
        assert (turn.text, turn.problem, turn.outside_at) == ("Let me see.\n", None, None)
        assert same(turn.calls, [ToolCall("ping", {})])
        count = len(ids_of("Let me see.\n", form))
        assert turn.calls[0].span == (count, count + len(ids_of(text, form)) - len(ids_of(form.calls_end, form)))
    else:
        assert turn.calls == ()


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_has_the_events_of_the_turn(name: str) -> None:
    form, tools = FORMATS[name], tools_of(name)
    calls = [ToolCall("get_weather", {"city": "Bö\nnn", "days": 2}), ToolCall("ping", {})][
        : 1 if form.separator is None else 2
    ]
    text = ("Well: " if form.trigger is not None else "") + tools.write(calls)
    stream = tools.stream(vocabulary(form))
    events = [event for token in [*ids_of(text, form), EOS] for event in stream.feed(token)]
    last, turn = stream.finish()
    events += last
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == turn.text
    assert [event.name for event in events if isinstance(event, CallStarted)] == [call.name for call in calls]
    assert [event.call for event in events if isinstance(event, CallDone)] == list(turn.calls)
    first = [event for event in events if isinstance(event, ArgumentsDelta) and event.index == 0]
    assert first[-1].so_far == "".join(event.text for event in first)
    assert len(first) > (5 if form.arguments == "json" else 1)
    assert turn == tools.parse([*ids_of(text, form), EOS], vocabulary(form))


@settings(max_examples=200, deadline=None)
@given(name=st.sampled_from(NAMES), calls=CALLS, cut=st.floats(0, 1), junk=TEXTS)
def test_broken_and_foreign_text_gives_what_was_readable(
    name: str, calls: list[ToolCall], cut: float, junk: str
) -> None:
    form, tools = FORMATS[name], tools_of(name)
    try:
        text = tools.write(calls[: 1 if form.separator is None else 3])
    except ConfigurationError:
        text = ""
    at = int(cut * len(text))
    for broken in (text[:at], text[:at] + junk + text[at:], text[at:], junk):
        turn = tools.parse(broken)
        assert isinstance(turn, Turn)
        assert (turn.problem is None) == (turn.broken_at is None)
        assert not turn.complete or (turn.problem is None and turn.outside_at is None)
        if turn.broken_at is not None:
            assert 0 <= turn.broken_at <= len(broken)
            assert broken.endswith(turn.rest)


def test_a_turn_says_where_reading_stopped() -> None:
    tools = tools_of("hermes")
    good = tools.write([ToolCall("ping", {})])
    turn = tools.parse(good + '\n<tool_call>\n{"name": "nothing", "arguments": {}}\n</tool_call>')
    assert same(turn.calls, [ToolCall("ping", {})])
    assert turn.problem == "there is no tool 'nothing'"
    assert turn.broken_at == len(good) + 1
    assert turn.rest.startswith("<tool_call>")
    cut = tools.parse(good[:-3])
    assert (cut.calls, cut.broken_at, cut.complete) == ((), 0, False)


def test_a_turn_says_which_token_leaves_the_language() -> None:
    form, tools = FORMATS["hermes"], tools_of("hermes")
    text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": 5}}\n</tool_call>'
    turn = tools.parse(ids_of(text, form), vocabulary(form))
    assert turn.outside_at == text.index("5")
    assert turn.calls[0].arguments == {"city": 5}


def test_a_spelled_special_token_is_text() -> None:
    form, tools = FORMATS["mistral"], tools_of("mistral")
    spelled = list(b"[TOOL_CALLS]ping[ARGS]{}")
    turn = tools.parse(spelled, vocabulary(form))
    assert (turn.calls, turn.text, turn.outside_at) == ((), "[TOOL_CALLS]ping[ARGS]{}", None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"format": "hermès"}, "allowed are 'auto'"),
        ({"format": "auto"}, "needs chat_template"),
        ({"format": "auto", "chat_template": "{{ messages }}"}, "not write tool calls in a known format"),
        ({"choice": "nothing"}, "names of tools"),
        ({"choice": ()}, "choice is empty"),
        ({"choice": 5}, "names of tools"),
        ({"parallel": 1}, "parallel is 1"),
        ({"reasoning": 0}, "reasoning is 0"),
        ({"reasoning": True, "format": "llama3_json"}, "no markers for reasoning"),
        ({"choice": "required", "answer": {}}, "always called"),
        ({"preamble": None}, "preamble is None; allowed are True and False"),
        ({"preamble": True, "format": "json"}, "in the format 'json' calls can only stand at the beginning"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Tools([*tools_of("hermes").tools], **arguments)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([1, 2], "without a vocabulary"),
        (None, "allowed are its token ids, and its text"),
        (b"text", "allowed are its token ids, and its text"),
        ([[1, 2]], r"allowed are the token ids of one turn, as in \[1, 2\]"),
        (torch.tensor([[1, 2]]), "allowed are the token ids of one turn"),
        ([1.5], "allowed are the token ids of one turn"),
    ],
)
def test_what_is_not_a_turn_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        tools_of("hermes").parse(given)


@pytest.mark.parametrize("value", [{1, 2}, float("nan"), b"x"])
def test_arguments_that_are_not_json_are_not_written(value: object) -> None:
    with pytest.raises(ConfigurationError, match="which is not JSON"):
        tools_of("hermes").write([ToolCall("save", {"note": {"a": value}, "tags": []})])


@pytest.mark.parametrize("name", NAMES)
def test_half_of_a_surrogate_pair_is_not_written(name: str) -> None:
    with pytest.raises(ConfigurationError, match="which UTF-8 cannot encode"):
        tools_of(name).write([ToolCall("save", {"note": {"a": "\ud800"}, "tags": []})])


def test_a_tool_whose_call_begins_like_an_answer_is_refused_where_a_turn_may_be_either() -> None:
    form = FORMATS["twice"]
    tool = {"name": "user", "parameters": {"properties": {"city": {"type": "string"}}}}
    with pytest.raises(ConfigurationError, match=r"so does a call of the tool 'user'.*rename the tool"):
        Tools([ping, tool], form)
    calls = [ToolCall("user", {"city": "x"}), ToolCall("ping", {})]
    tools = Tools([ping, tool], form, choice="required")
    text = tools.write(calls)
    turn = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
    assert same(turn.calls, calls)
    assert (turn.outside_at, turn.complete) == (None, True)
    assert Tools([ping, {"name": "users"}], form).constraint(vocabulary(form)).matches(" to=user<|message|>ping")
