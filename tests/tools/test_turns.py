"""Turns: what is written is accepted and read as the same calls, in each format; where a turn breaks is known."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError
from logitkit.languages import regex
from logitkit.tools.formats import FORMATS
from logitkit.tools.turn import ArgumentsDelta, CallDone, CallStarted, ReasoningDelta, TextDelta, Turn
from tests.examples import examples
from tests.tools.turns import EOS, ids_of, same, tools_of, vocabulary

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


def accepts(tools: Tools, form: ToolFormat, text: str) -> bool:
    turn = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
    return turn.outside_at is None


def test_all_names_are_known() -> None:
    assert NAMES == ["qwen_coder", "deepseek_v31", "harmony", "mistral", "hermes", "llama3_json", "json"]


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(120), deadline=None)
@given(calls=CALLS)
def test_what_is_written_is_accepted_and_read_as_the_same_calls(name: str, calls: list[ToolCall]) -> None:
    form = FORMATS[name]
    if form.separator is None:
        calls = calls[:1]
    tools = tools_of(name)
    try:
        text = tools.write(calls)
    except ConfigurationError as error:
        assert form.arguments == "xml"  # the other formats can write any string
        assert "contains '</parameter>'" in str(error) or "would be read as" in str(error)  # noqa: PT017
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
    start = text.index('{"city"') if form.arguments == "json" else text.index("Bonn")
    stop = text.index("}", start) + 1 if form.arguments == "json" else start + 4
    assert accepts(required, form, text)
    for at in [*range(start), *range(stop, len(text))]:
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
        assert turn.calls[0].span == (count, count + len(ids_of(text, form)) - bool(form.calls_end))
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


@pytest.mark.parametrize("name", ["hermes", "qwen_coder", "deepseek_v31", "mistral", "harmony", "json"])
def test_reasoning_comes_before_calls(name: str) -> None:
    form = FORMATS[name]
    tools = Tools([*tools_of(name).tools], form, reasoning=True)
    call = tools.write([ToolCall("ping", {})])
    assert form.reasoning_end is not None
    text = form.reasoning_begin + "Hm, <x>." + form.reasoning_end + ("" if name == "harmony" else "\n\n") + call
    turn = tools.parse([*ids_of(text, form), EOS], vocabulary(form))
    assert (turn.reasoning, turn.text, turn.problem, turn.outside_at) == ("Hm, <x>.", "", None, None)
    assert same(turn.calls, [ToolCall("ping", {})])
    without = tools.parse([*ids_of(call, form), EOS], vocabulary(form))
    assert without.outside_at is not None
    stream = tools.stream(vocabulary(form))
    events = [event for token in ids_of(text, form) for event in stream.feed(token)]
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "Hm, <x>."


@pytest.mark.parametrize("name", ["hermes", "deepseek_v31", "mistral", "harmony"])
def test_reasoning_ends_within_its_budget(name: str) -> None:
    form = FORMATS[name]
    tools = Tools([*tools_of(name).tools], form, reasoning=60)
    text = form.reasoning_begin + "Hm." + str(form.reasoning_end)
    assert tools.parse(ids_of(text, form), vocabulary(form)).outside_at is None
    long = tools.parse(ids_of(form.reasoning_begin + "Hm." * 30 + str(form.reasoning_end), form), vocabulary(form))
    assert long.outside_at is not None
    assert long.outside_at <= len(ids_of(form.reasoning_begin, form)) + 60


@pytest.mark.parametrize("name", NAMES)
def test_choices(name: str) -> None:
    form = FORMATS[name]
    text, ping = form.text_begin + "Hello", tools_of(name).write([ToolCall("ping", {})])
    weather = tools_of(name).write([ToolCall("get_weather", {"city": "Bonn"})])
    expected = {"auto": (1, 1, 1), "required": (0, 1, 1), "none": (1, 0, 0), "ping": (0, 1, 0)}
    for choice, verdicts in expected.items():
        tools = tools_of(name, choice)
        assert tuple(accepts(tools, form, given) for given in (text, ping, weather)) == verdicts, choice
    if form.separator is not None:
        two = [ToolCall("ping", {})] * 2
        assert accepts(tools_of(name), form, tools_of(name).write(two))
        assert not accepts(tools_of(name, parallel=False), form, tools_of(name).write(two))
        assert accepts(tools_of(name, parallel=False), form, ping)


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_is_allowed_in_place_of_a_call(name: str) -> None:
    form = FORMATS[name]
    answer = {
        "type": "object",
        "properties": {"ok": {"type": "boolean"}},
        "required": ["ok"],
        "additionalProperties": False,
    }
    tools = Tools([*tools_of(name).tools], form, answer=answer)
    assert accepts(tools, form, form.text_begin + '{"ok": true}')
    assert not accepts(tools, form, form.text_begin + '{"ok": 1}')
    assert not accepts(tools, form, form.text_begin + "Hello")
    assert accepts(tools, form, tools.write([ToolCall("ping", {})]))
    assert tools.parse(ids_of(form.text_begin + '{"ok": true}', form), vocabulary(form)).text == '{"ok": true}'


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("choice", ["auto", "none"])
def test_a_trigger_in_a_string_of_an_answer_is_text(name: str, choice: str) -> None:
    form = FORMATS[name]
    schema = {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]}
    tools = Tools([*tools_of(name).tools], form, answer=schema, choice=choice)
    for note in ("<tool_call>", "[TOOL_CALLS]", 'a "<tool_call>\\', "\\"):
        text = json.dumps({"note": note})
        # In strings, names of special tokens are spelled.
        ids = [*ids_of(form.text_begin, form), *text.encode(), EOS]
        turn = tools.parse(ids, vocabulary(form))
        assert (turn.text, turn.calls, turn.problem, turn.outside_at) == (text, (), None, None)
        stream = tools.stream(vocabulary(form))
        events = [event for token in ids for event in stream.feed(token)]
        assert "".join(event.text for event in [*events, *stream.finish()[0]] if isinstance(event, TextDelta)) == text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preamble", [True, False])
def test_a_trigger_in_an_answer_that_is_a_string_is_text(name: str, preamble: bool) -> None:
    form = FORMATS[name]
    if preamble and form.trigger is None:
        return
    written = tools_of(name).write([ToolCall("ping", {})])
    for answer in ({"type": "string"}, regex(r'[a-z]+ [^"]*')) if not preamble else ({"type": "string"},):
        tools = Tools([*tools_of(name).tools], form, answer=answer, preamble=preamble)
        for note in ("see <tool_call>", "a [TOOL_CALLS]", written, "plain \\ "):
            text = json.dumps(note, ensure_ascii=False) if isinstance(answer, dict) else "b " + note.replace('"', "")
            ids = [*ids_of(form.text_begin, form), *text.encode(), EOS]
            turn = tools.parse(ids, vocabulary(form))
            assert (turn.text, turn.calls, turn.problem, turn.outside_at) == (text, (), None, None)
            assert turn.complete
            stream = tools.stream(vocabulary(form))
            events = [event for token in ids for event in stream.feed(token)]
            events += stream.finish()[0]
            assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text
        turn = tools.parse([*ids_of(written, form), EOS], vocabulary(form))
        assert same(turn.calls, [ToolCall("ping", {})])


@pytest.mark.parametrize("name", [name for name in NAMES if FORMATS[name].trigger is not None])
@pytest.mark.parametrize("reasoning", [None, 40])
def test_a_preamble_stands_before_calls(name: str, reasoning: int | None) -> None:
    form, ping = FORMATS[name], tools_of(name).write([ToolCall("ping", {})])
    first = form.reasoning_begin + "Hm." + str(form.reasoning_end) if reasoning else ""
    given = [*tools_of(name).tools]
    required = Tools(given, form, choice="required", preamble=True, reasoning=reasoning)
    answer = Tools(given, form, answer=True, preamble=True, reasoning=reasoning)
    texts = {
        "": (1, 1),
        "Let me see: [.\n": (1, 1),
        " \n!": (1, 1),
        "{": (1, 0),
        "\n [1]": (1, 0),
        '"a"': (1, 0),
        form.call_begin[:1]: (1, form.call_begin[0] not in "[{"),
    }
    for text, verdicts in texts.items():
        found = tuple(accepts(tools, form, first + text + ping) for tools in (required, answer))
        assert found == verdicts, text
        turn = required.parse([*ids_of(first + text + ping, form), EOS], vocabulary(form))
        assert same(turn.calls, [ToolCall("ping", {})])
        assert turn.text.strip("\n") == text.strip("\n")
    assert [accepts(answer, form, first + text) for text in ("", "hello", '{"a":[1]}', "[[]]", "5")] == [0, 0, 1, 1, 1]
    assert not accepts(required, form, first + "hello")
    assert not accepts(answer, form, first + "5" + ping + "5")


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
