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
    def stopped(self) -> bool: ...


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

    @property
    def stopped(self) -> bool:
        """Whether a stop has ended the answer, so that the engine need not generate any more."""
        return self._reader.stopped

    def feed(self, token: int) -> list[Delta]:
        """Read a token, and return the deltas that it adds. After a stop, nothing is added.

        Args:
            token: Its id; EOS adds nothing.
        """
        return [] if self.stopped else self._noted(self._reader.feed(token))

    def finish(self) -> list[Delta]:
        """Return the deltas that were held back, because a stop or a call might have followed."""
        if self._finished:
            return []
        self._finished = True
        return self._noted(self._reader.finish())

    def _noted(self, deltas: list[Delta]) -> list[Delta]:
        self.has_calls = self.has_calls or any("tool_calls" in delta for delta in deltas)
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
    def stopped(self) -> bool:
        return self._stream.stop is not None

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
        self.stopped = False

    def feed(self, token: int) -> list[Delta]:
        return self._deltas(self._turn.feed(token))

    def finish(self) -> list[Delta]:
        if self.stopped:
            return []
        events, _ = self._turn.finish()
        deltas = self._deltas(events)
        # A call that was cut off cannot be read to its end. Its beginning has been sent, or is not worth sending.
        return deltas if self.stopped else [*deltas, *_content(self._text.finish())]

    def _deltas(self, events: Iterable[TurnEvent]) -> list[Delta]:
        found: list[Delta] = []
        for event in events:
            if self.stopped:
                break
            found += self._deltas_of(event)
        return found

    def _deltas_of(self, event: TurnEvent) -> list[Delta]:
        if isinstance(event, TextDelta):
            text = self._text.feed(event.text.encode("utf-8", "replace"))
            self.stopped = self._text.stop is not None
            return _content(text)
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


def _content(text: str) -> list[Delta]:
    return [{"content": text}] if text else []


def _begun(index: int, name: str, given: str | None) -> list[Delta]:
    call = {"index": index, "id": given or f"call_{secrets.token_hex(12)}", "type": "function"}
    return [{"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]}]


def _arguments(index: int, text: str) -> list[Delta]:
    return [{"tool_calls": [{"index": index, "function": {"arguments": text}}]}] if text else []
