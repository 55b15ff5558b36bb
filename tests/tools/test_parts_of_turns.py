"""Reasoning, preambles, answers and choices: what may stand in a turn beside calls, or in place of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from logitkit import ToolCall, ToolFormat, Tools
from logitkit.errors import ConfigurationError
from logitkit.languages import any_text, regex, sequence
from logitkit.tools.turn import ReasoningDelta, TextDelta
from tests.tools.turns import EOS, FORMATS, accepts, ids_of, same, tools_of, vocabulary

NAMES = list(FORMATS)


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


@pytest.mark.parametrize("choice", ["auto", "required"])
def test_a_budget_in_which_the_end_of_reasoning_cannot_be_written(choice: str) -> None:
    form = FORMATS["mistral"]
    # The tokens are bytes, and none is [/THINK].
    assert form.reasoning_end not in form.tokens
    says = r"^reasoning is 5, but its end '\[/THINK\]' in .* takes at least 8 tokens, .* give True or at least 7, or"
    with pytest.raises(ConfigurationError, match=says):
        Tools([*tools_of("mistral").tools], form, choice=choice, reasoning=5).constraint(vocabulary(form))
    Tools([*tools_of("mistral").tools], form, choice=choice, reasoning=7).constraint(vocabulary(form))


def test_a_budget_of_an_answer_is_named_as_it_was_given() -> None:
    answer = sequence("<answer>", any_text(until="</answer>", max_tokens=5))
    tools = Tools([*tools_of("mistral").tools], FORMATS["mistral"], choice="none", answer=answer, reasoning=60)
    with pytest.raises(
        ConfigurationError, match=r"^max_tokens is 5, but the marker '</answer>' takes at least 9 tokens"
    ):
        tools.constraint(vocabulary(FORMATS["mistral"]))


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


def test_a_trigger_that_is_a_part_of_a_special_token_is_refused() -> None:
    fields: dict[str, Any] = {
        "name": "own",
        "calls_begin": "<|calls|>",
        "call_begin": "",
        "name_end": " ",
        "call_end": ";",
    }
    assert ToolFormat(**fields, trigger="<|calls|>", tokens=("<|calls|>",)).trigger == "<|calls|>"
    assert ToolFormat(**fields, trigger="<|calls").tokens == ()
    with pytest.raises(ConfigurationError, match=r"a part of the special token '<\|calls\|>'"):
        ToolFormat(**fields, trigger="<|calls", tokens=("<|calls|>",))
