"""Tokens become deltas. The oracles are the text itself, `str.index`, and the calls that `Tools.write` has written."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.tools import ToolCall
from logitkit.tools.formats import TOOL_FORMATS
from logitkit_adapters.serving.answer_reader import AnswerReader
from logitkit_adapters.serving.messages import Message
from logitkit_adapters.serving.requests import ServedRequest
from tests.examples import examples

EOS = 256
PIECES = [b"ab", b"ba", b"aab", "é".encode(), "é€".encode(), b"<tool_call>", b'{"name": "', b'"}}', b"\n</tool_call>"]
VOCABULARY = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None, *PIECES], eos_ids=[EOS])
TOKENS = [each or b"" for each in VOCABULARY.tokens]
SAVE = {
    "name": "save",
    "parameters": {"type": "object", "properties": {"text": {"type": "string"}, "many": {"type": "integer"}}},
}


def split(draw: st.DataObject, text: bytes) -> list[int]:
    """Return random tokens that spell a text."""
    ids: list[int] = []
    while text:
        ways = [token for token, spelled in enumerate(TOKENS) if spelled and text.startswith(spelled)]
        ids.append(draw.draw(st.sampled_from(ways)))
        text = text[len(TOKENS[ids[-1]]) :]
    return ids


def message_of(reader: AnswerReader, ids: list[int]) -> tuple[dict[str, Any], list[list[dict[str, Any]]]]:
    message = Message()
    parts = [reader.feed(token) for token in ids]
    parts.append(reader.finish())
    for deltas in parts:
        message.add(deltas)
    return message.body(), parts


@settings(max_examples=examples(300), deadline=None)
@given(st.data(), st.text("abé€", max_size=30), st.lists(st.text("abé", min_size=1, max_size=4), max_size=3))
def test_text_ends_before_the_first_stop(draw: st.DataObject, text: str, stops: list[str]) -> None:
    reader = AnswerReader(ServedRequest(stops=tuple(stops)), VOCABULARY)
    message, _ = message_of(reader, [*split(draw, text.encode()), EOS])
    # The first stop is the one that ends first; of those that end together, the longest.
    ends = [(text.index(stop) + len(stop), text.index(stop)) for stop in stops if stop in text]
    assert message["content"] == (text[: min(ends)[1]] if ends else text)
    assert reader.stopped == bool(ends)
    assert reader.finish_reason("length") == ("stop" if ends else "length")


@settings(max_examples=examples(300), deadline=None)
@given(
    st.data(),
    st.binary(max_size=3),
    st.text("abé€", max_size=30),
    st.lists(st.text("abé", min_size=1, max_size=4), max_size=3),
)
def test_tokens_of_a_stop_are_not_tokens_of_the_text(
    draw: st.DataObject, before: bytes, text: str, stops: list[str]
) -> None:
    reader = AnswerReader(ServedRequest(stops=tuple(stops)), VOCABULARY)
    spelled = before + text.encode()
    ids = split(draw, spelled)
    message_of(reader, ids)
    found = [
        (spelled.index(stop.encode()) + len(stop.encode()), spelled.index(stop.encode()))
        for stop in stops
        if stop.encode() in spelled
    ]
    begin = min(found)[1] if found else len(spelled)
    begins = [len(b"".join(TOKENS[token] for token in ids[:i])) for i in range(len(ids))]
    assert reader.text_tokens == sum(each < begin for each in begins)


def test_tokens_of_a_stop_after_a_call_and_reasoning() -> None:
    special = lk.Vocabulary([*VOCABULARY.tokens, None], eos_ids=[EOS], special={"<end>": VOCABULARY.size})
    reader = AnswerReader(ServedRequest(stops=("<end>",)), special)
    message_of(reader, [*b"Yes", VOCABULARY.size])
    assert (reader.stopped, reader.text_tokens) == (True, 3)

    tools = lk.Tools([SAVE], "hermes", reasoning=True)
    reader = AnswerReader(ServedRequest(tools=tools, stops=("stop", "\n\n\n")), VOCABULARY)
    begun = b"<think>\nI stop.</think>\n\n"
    message, _ = message_of(reader, [*begun, *b"Now stop.", EOS])
    assert (message["content"], reader.text_tokens) == ("Now ", len(begun) + len("Now "))


VALUES = st.fixed_dictionaries({"text": st.text(max_size=8), "many": st.integers(-99, 99)})


@settings(max_examples=examples(200), deadline=None)
@given(
    st.data(),
    st.sampled_from(sorted(TOOL_FORMATS)),
    st.lists(VALUES, min_size=1, max_size=3),
)
def test_calls_are_read_as_they_were_written(draw: st.DataObject, name: str, values: list[dict[str, Any]]) -> None:
    form = TOOL_FORMATS[name]
    values = values[: 1 if form.separator is None else None]
    tools = lk.Tools([SAVE], form, choice="required")
    try:
        text = tools.write([ToolCall("save", value, id="abcdefghi") for value in values])
    except lk.errors.ConfigurationError:  # a text that the format cannot hold
        return
    named = [*form.tokens]
    vocabulary = lk.Vocabulary(
        [*TOKENS[:256], None, *PIECES, *([None] * len(named))],
        eos_ids=[EOS],
        special={each: 257 + len(PIECES) + i for i, each in enumerate(named)},
    )
    reader = AnswerReader(ServedRequest(tools=tools, stops=("save", "a")), vocabulary)
    ids = _spelled(draw, text, vocabulary)
    message, parts = message_of(reader, [*ids, EOS])
    assert message["content"] is None
    assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == values
    assert {call["function"]["name"] for call in message["tool_calls"]} == {"save"}
    assert reader.finish_reason("stop") == "tool_calls"
    started = [call for deltas in parts for delta in deltas for call in delta["tool_calls"] if "id" in call]
    assert [call["index"] for call in started] == list(range(len(values)))


def _spelled(draw: st.DataObject, text: str, vocabulary: lk.Vocabulary) -> list[int]:
    for name, token in vocabulary.special.items():
        if name in text:
            before, _, after = text.partition(name)
            return [*_spelled(draw, before, vocabulary), token, *_spelled(draw, after, vocabulary)]
    return split(draw, text.encode())


def test_a_stop_in_the_text_before_a_call_ends_the_answer() -> None:
    tools = lk.Tools([SAVE], "hermes")
    text = 'Now I stop.<tool_call>\n{"name": "save", "arguments": {"text": "stop"}}\n</tool_call>'
    for stops, content, calls in ((("stop",), "Now I ", 0), (("st0p", ".<"), "Now I stop.", 1)):
        reader = AnswerReader(ServedRequest(tools=tools, stops=stops), VOCABULARY)
        message, parts = message_of(reader, [*text.encode(), EOS])
        assert message["content"] == content
        kinds = [name for deltas in parts for delta in deltas for name in delta]
        assert kinds == sorted(kinds)  # what was held back comes before the call
        assert len(message.get("tool_calls", ())) == calls
        assert reader.finish_reason("stop") == ("tool_calls" if calls else "stop")


def test_reasoning_is_apart() -> None:
    tools = lk.Tools([SAVE], "hermes", reasoning=True)
    reader = AnswerReader(ServedRequest(tools=tools), VOCABULARY, "reasoning")
    message, _ = message_of(reader, [*b"<think>\nHm.</think>\n\nYes", EOS])
    assert (message["reasoning"].strip(), message["content"]) == ("Hm.", "Yes")


def test_a_call_that_is_cut_off() -> None:
    tools = lk.Tools([SAVE], "hermes", choice="required")
    reader = AnswerReader(ServedRequest(tools=tools), VOCABULARY)
    message, _ = message_of(reader, [*b'<tool_call>\n{"name": "save", "arguments": {"te'])
    assert message["tool_calls"][0]["function"]["arguments"] == '{"te'
    assert reader.finish_reason("length") == "length"


def test_ids_that_the_model_writes() -> None:
    form = lk.ToolFormat(
        name="own", call_begin="<call {id} ", name_end=">", call_end="</call>", trigger="<call ", id_length=9
    )
    reader = AnswerReader(ServedRequest(tools=lk.Tools([SAVE], form)), VOCABULARY)
    message, _ = message_of(reader, [*b'<call abcdefgh1 save>{"text": "x"}</call><call abcdefgh2 save>{}</call>', EOS])
    found = [(call["id"], call["function"]["arguments"]) for call in message["tool_calls"]]
    assert found == [("abcdefgh1", '{"text": "x"}'), ("abcdefgh2", "{}")]
