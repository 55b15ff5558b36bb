"""Classes and functions that stand in for the parsers of vLLM, SGLang and mlx-lm, and read with our formats.

They have the methods that these projects call to read a text, and no others: a test that asks for more judges the inside of a
parser.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from logitkit import ToolCall
from logitkit.tools.turn import CallDone, CallStarted, TextDelta, TurnEvent
from tests.tools.parser_tests.parser_formats import key_of
from tests.tools.parser_tests.records import JsonText, Record, fresh_id, record
from tests.tools.parser_tests.watching import InsideOfParser, Stream, Watch


def vllm_parser(name: str, watch: Watch) -> type:
    """Return a class that stands in for a parser of vLLM."""
    key = key_of(name)
    call, delta, function = (record(one) for one in ("ToolCall", "DeltaToolCall", "FunctionCall"))

    class Parser:
        def __init__(self, tokenizer: Any, tools: Any = None, **_: Any) -> None:
            self.model_tokenizer, self.tools = tokenizer, tools
            self.vocab: dict[str, int] = {}
            self._stream: Stream | None = None

        def _given(self, request: Any) -> Any:
            return getattr(request, "tools", None) or self.tools

        def extract_tool_calls(self, model_output: str, request: Any = None) -> Record:
            turn = watch.read(key, self._given(request), model_output).turn
            calls = [call(function=function(name=one.name, arguments=arguments_of(one))) for one in turn.calls]
            return record("ExtractedToolCallInformation")(
                tools_called=bool(calls), tool_calls=calls, content=watch.text_around(turn.text) or None
            )

        def extract_tool_calls_streaming(self, *given: Any, **named: Any) -> Record | None:
            text = named.get("delta_text", given[2] if len(given) > 2 else "")
            request = named.get("request", given[6] if len(given) > 6 else None)
            if self._stream is None:
                self._stream = Stream(watch, key, self._given(request))
            events = self._stream.feed(text)
            content = watch.text_streamed("".join(one.text for one in events if isinstance(one, TextDelta)))
            calls = [
                delta(
                    index=index,
                    function=record("DeltaFunctionCall")(name=started, arguments=arguments),
                    **({} if started is None else {"id": fresh_id(), "type": "function"}),
                )
                for index, started, arguments in _deltas(events)
            ]
            return record("DeltaMessage")(content=content or None, tool_calls=calls) if content or calls else None

        def __getattr__(self, name: str) -> Any:
            raise InsideOfParser(name)

    Parser.__name__ = name
    return Parser


def sglang_parser(name: str, watch: Watch) -> type:
    """Return a class that stands in for a detector of SGLang, or for its parser of all formats."""
    item, result = record("ToolCallItem"), record("StreamingParseResult")

    class Detector:
        def __init__(self, *given: Any, **named: Any) -> None:
            self._tools = named.get("tools", given[0] if given else None)
            chosen = named.get("tool_call_parser", given[1] if len(given) > 1 else None)
            self._key = key_of(chosen or name)
            self._stream: Stream | None = None
            self.detector = self

        def detect_and_parse(self, text: str, tools: Any = None) -> Record:
            turn = watch.read(self._key, tools or self._tools, text).turn
            calls = [
                item(tool_index=at, name=one.name, parameters=arguments_of(one)) for at, one in enumerate(turn.calls)
            ]
            return result(normal_text=watch.text_around(turn.text), calls=calls)

        def parse_streaming_increment(self, new_text: str, tools: Any = None) -> Record:
            if self._stream is None:
                self._stream = Stream(watch, self._key, tools or self._tools)
            events = self._stream.feed(new_text)
            calls = [
                item(tool_index=index, name=started, parameters=arguments)
                for index, started, arguments in _deltas(events)
            ]
            text = "".join(one.text for one in events if isinstance(one, TextDelta))
            return result(normal_text=watch.text_streamed(text), calls=calls)

        def parse_non_stream(self, text: str) -> tuple[Any, list[Any]]:
            found = self.detect_and_parse(text)
            return found.normal_text, found.calls

        def parse_stream_chunk(self, text: str) -> tuple[Any, list[Any]]:
            found = self.parse_streaming_increment(text)
            return found.normal_text, found.calls

        def has_tool_call(self, text: str) -> bool:
            return bool(watch.read(self._key, self._tools, text).turn.calls)

        def __getattr__(self, name: str) -> Any:
            raise InsideOfParser(name)

    Detector.__name__ = name
    return Detector


def mlx_module(name: str, constants: Mapping[str, Any], watch: Watch) -> dict[str, Any]:
    """Return what stands in for a module of mlx-lm: its markers, and a function that reads a call.

    Args:
        name: The name of the module.
        constants: Its constants.
        watch: The readings of the test.
    """
    markers = {one: constants[one] for one in ("tool_call_start", "tool_call_end") if one in constants}
    # Its pythonic parser has the markers of LFM2.
    key = {"pythonic": "lfm2"}.get(key_of(name), key_of(name))

    def parse_tool_call(text: str, tools: Any = None) -> Any:
        # mlx-lm cuts the markers off, with the white space next to them.
        begin, end = markers["tool_call_start"], markers["tool_call_end"]
        ways = [begin + space + text + space + end for space in ("", "\n")]
        given = [watch.read(key, tools, way) for way in ways]
        found = next((one for one in given if one.writable), given[0])
        for other in given:
            if other is not found:
                watch.readings.remove(other)
        calls: list[dict[str, Any]] = [{"name": one.name, "arguments": one.arguments} for one in found.turn.calls]
        if key == "kimik2":
            # The text around the name is the id, of which a format has the number only.
            calls = [{"id": f"functions.{call['name']}:{number}", **call} for number, call in enumerate(calls)]
        # One call is returned by itself, but by the parser of Kimi.
        return calls[0] if len(calls) == 1 and key != "kimik2" else calls

    return {"parse_tool_call": parse_tool_call, **markers}


def _deltas(events: list[TurnEvent]) -> list[tuple[int, str | None, str]]:
    """Return the number of each call of some events, its name if it has begun, and its arguments if it is done."""
    found: list[tuple[int, str | None, str]] = []
    for event in events:
        if isinstance(event, CallStarted):
            found.append((event.index, event.name, ""))
        elif isinstance(event, CallDone):
            begun = found.pop()[1] if found and found[-1][0] == event.index else None
            found.append((event.index, begun, arguments_of(event.call)))
    return found


def arguments_of(call: ToolCall) -> JsonText:
    """Return arguments as the text of JSON that parsers return."""
    return JsonText(json.dumps(call.arguments, ensure_ascii=False))
