"""Reads generated tokens as OpenAI's deltas: text up to a stop, reasoning, and calls of tools."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from typing import Any, Protocol

from logitkit import TextStream, Vocabulary
from logitkit.tools import (
    ArgumentsDelta,
    CallDone,
    CallStarted,
    ReasoningDelta,
    TextDelta,
    Tools,
)
from logitkit.tools.formats.call_ids import ID
from logitkit.tools.turn import TurnEvent
from logitkit_adapters.serving.requests import ServedRequest

__all__ = ["AnswerReader", "Delta"]

# A delta of OpenAI's API: the new part of a message.
Delta = dict[str, Any]

# Text is searched for stops as bytes, because stops need not end where tokens end.
BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])


class _DeltaReader(Protocol):
    def feed(self, token: int) -> list[Delta]: ...
    def finish(self) -> list[Delta]: ...
    @property
    def stop(self) -> str | None: ...


class AnswerReader:
    r"""Reads the tokens of one answer.

    Args:
        asked: The request.
        vocabulary: The tokens of the model.
        reasoning: The member of a message that reasoning is written to.
        stops: More texts that end the answer.

    Raises:
        LogitkitError: The stops are too long together.

    Example:
        >>> vocabulary = Vocabulary([b"yes", b"\n", b"Us", b"er:", None], eos_ids=[4])
        >>> reader = AnswerReader(ServedRequest(stops=("\nUser:",)), vocabulary)
        >>> [reader.feed(token) for token in (0, 1, 2, 3)], reader.stopped
        ([[{'content': 'yes'}], [], [], []], True)
    """

    def __init__(
        self,
        asked: ServedRequest,
        vocabulary: Vocabulary,
        reasoning: str = "reasoning_content",
        *,
        stops: tuple[str, ...] = (),
    ) -> None:
        self._reader: _DeltaReader
        if asked.tools is None:
            self._reader = _TextReader(vocabulary, (*asked.stops, *stops))
        else:
            self._reader = _TurnReader(asked.tools, vocabulary, (*asked.stops, *stops), reasoning)
        self._finished = self.has_calls = False
        self._vocabulary = vocabulary
        # All bytes, and where each token begins in them.
        self._bytes, self._begins = bytearray(), list[int]()
        # The content since the last reasoning or call, and the token from which on it can begin.
        self._content, self._content_from = list[str](), 0

    @property
    def stopped(self) -> bool:
        """Whether a stop has ended the answer, so that the engine need not generate any more."""
        return self._reader.stop is not None

    @property
    def text_tokens(self) -> int:
        """How many of the tokens begin before the stop that ended the answer; all of them if none did."""
        if self._reader.stop is None:
            return len(self._begins)
        stop, start = self._reader.stop.encode(), self._begins[self._content_from]
        content = "".join(self._content).encode("utf-8", "replace")
        begin = self._bytes.find(content + stop, start)
        # Content with invalid bytes is not found.
        begin = self._bytes.find(stop, start) if begin < 0 else begin + len(content)
        if begin < 0:  # the stop is the name of a special token, which has come itself
            return len(self._begins) - 1
        return sum(each < begin for each in self._begins)

    def feed(self, token: int) -> list[Delta]:
        """Read a token, and return the deltas that it adds. After a stop, nothing is added.

        Args:
            token: Its id; EOS adds nothing.
        """
        if self.stopped:
            return []
        self._begins.append(len(self._bytes))
        self._bytes += self._vocabulary.tokens[token] or b""
        return self._noted(self._reader.feed(token))

    def finish(self) -> list[Delta]:
        """Return the deltas that were held back, because a stop or a call might have followed."""
        if self._finished:
            return []
        self._finished = True
        return self._noted(self._reader.finish())

    def _noted(self, deltas: list[Delta]) -> list[Delta]:
        for delta in deltas:
            self.has_calls = self.has_calls or "tool_calls" in delta
            if "content" in delta:
                self._content.append(delta["content"])
            else:
                self._content, self._content_from = [], len(self._begins) - 1
        return deltas

    def finish_reason(self, reason: str | None) -> str:
        """Return OpenAI's `finish_reason`.

        Args:
            reason: That of the engine: `"length"` if the answer was cut off.
        """
        if self.stopped or reason != "length":
            return "tool_calls" if self.has_calls and not self.stopped else "stop"
        return "length"


class _TextReader:
    """Reads text up to a stop."""

    def __init__(self, vocabulary: Vocabulary, stops: Iterable[str]) -> None:
        self._stream = TextStream(vocabulary, tuple(stops))

    @property
    def stop(self) -> str | None:
        return _text_of(self._stream.stop)

    def feed(self, token: int) -> list[Delta]:
        return _content(self._stream.feed(token))

    def finish(self) -> list[Delta]:
        return _content(self._stream.finish())


class _TurnReader:
    """Reads a turn with tools. Stops end its text; in reasoning and in the arguments of calls, they mean nothing."""

    def __init__(self, tools: Tools, vocabulary: Vocabulary, stops: tuple[str, ...], reasoning: str) -> None:
        self._turn = tools.stream(vocabulary)
        self._stops, self._reasoning = stops, reasoning
        self._text = TextStream(BYTES, stops)
        form = tools.form
        # In other formats, the text of arguments is not JSON, so they are sent as a whole.
        self._in_parts = form.arguments == "json"
        # An id that the model writes is known when its call is complete.
        self._named_by_model = any(ID in marker for marker in (form.call_begin, form.name_end, form.call_end))

    @property
    def stop(self) -> str | None:
        return _text_of(self._text.stop)

    def feed(self, token: int) -> list[Delta]:
        return self._deltas(self._turn.feed(token))

    def finish(self) -> list[Delta]:
        if self.stop is not None:
            return []
        events, _ = self._turn.finish()
        deltas = self._deltas(events)
        # A call that was cut off cannot be read to its end. Its beginning has been sent, or is not worth sending.
        return deltas if self.stop is not None else [*deltas, *_content(self._text.finish())]

    def _deltas(self, events: Iterable[TurnEvent]) -> list[Delta]:
        found: list[Delta] = []
        for event in events:
            if self.stop is not None:
                break
            found += self._deltas_of(event)
        return found

    def _deltas_of(self, event: TurnEvent) -> list[Delta]:
        if isinstance(event, TextDelta):
            return _content(self._text.feed(event.text.encode("utf-8", "replace")))
        if isinstance(event, ReasoningDelta):
            return [{self._reasoning: event.text}] if event.text else []
        if isinstance(event, CallStarted):
            # No stop can begin before a call and end after it.
            held, self._text = self._text.finish(), TextStream(BYTES, self._stops)
            return [*_content(held), *([] if self._named_by_model else _begun(event.index, event.name, None))]
        if isinstance(event, ArgumentsDelta):
            return _arguments(event.index, event.text) if self._in_parts and not self._named_by_model else []
        assert isinstance(event, CallDone)
        begun = _begun(event.index, event.call.name, event.call.id) if self._named_by_model else []
        if self._in_parts and not begun:
            return []
        return [*begun, *_arguments(event.index, json.dumps(event.call.arguments, ensure_ascii=False))]


def _text_of(stop: object) -> str | None:
    """Return a stop of a stream whose stops are all texts."""
    assert stop is None or isinstance(stop, str)
    return stop


def _content(text: str) -> list[Delta]:
    return [{"content": text}] if text else []


def _begun(index: int, name: str, given: str | None) -> list[Delta]:
    call = {"index": index, "id": given or f"call_{secrets.token_hex(12)}", "type": "function"}
    return [{"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]}]


def _arguments(index: int, text: str) -> list[Delta]:
    return [{"tool_calls": [{"index": index, "function": {"arguments": text}}]}] if text else []
