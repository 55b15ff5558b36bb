"""Reads a turn as it grows, with the same format and tools that make up its language."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.formats import ToolFormat
from logitkit.tools.json_end import JsonEnd
from logitkit.tools.marked_text import Markers
from logitkit.tools.member_values import MemberValues
from logitkit.tools.turn import (
    ArgumentsDelta,
    CallDone,
    CallStarted,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    Turn,
    TurnEvent,
)
from logitkit.tools.xml_reading import XmlReading

__all__ = ["TurnReader"]

Step = Callable[[], bool]


class TurnReader:
    """Reads marked text, piece by piece.

    Each state is a method that reads on from `self.at`, and returns whether it got further. Where it needs more text, it returns
    False and is called again. What a marker may begin with is held back until it is clear.

    Args:
        tools: The tools, by name.
        form: The format.
        values: Returns what the members of a tool's arguments may be.
        reasoning: Whether the turn begins with reasoning.
        parallel: Whether several calls are allowed.
        answer: Whether a turn without a call is an answer, which may be JSON.
        preamble: Whether text may precede calls beside an answer.
    """

    def __init__(
        self,
        tools: Mapping[str, ToolDefinition],
        form: ToolFormat,
        values: Callable[[str], MemberValues],
        reasoning: bool,
        parallel: bool,
        answer: bool,
        preamble: bool,
    ) -> None:
        self.tools, self.form, self.values = tools, form, values
        self.markers = Markers(form)
        self.parallel = parallel and form.separator is not None
        self.answer, self.preamble = answer, preamble
        self.buffer = ""
        self.places: list[tuple[int, int]] = []
        self.at = 0
        # Where the unit that is being read begins: a call, or a marker.
        self.unit = 0
        self.final = False
        self.problem: str | None = None
        self.calls: list[ToolCall] = []
        self.texts: list[str] = []
        self.reasonings: list[str] | None = [] if reasoning else None
        self.events: list[TurnEvent] = []
        self.call_name = ""
        self.arguments: Any = None
        self.scan: JsonEnd | None = None
        self.xml: XmlReading | None = None
        self.shown = 0
        self.state: Step = self._reasoning_begin if reasoning else self._beginning

    def _marked(self, text: str) -> str:
        """Return a marker as it stands in marked text."""
        return self.markers.marked(text)

    def feed(self, pieces: Iterable[tuple[str, int, int]]) -> list[TurnEvent]:
        """Read more: characters, each with its first position and the one after its last."""
        found = list(pieces)
        self.buffer += "".join(text for text, _, _ in found)
        self.places.extend((first, last) for text, first, last in found for _ in text)
        return self._run()

    def _run(self) -> list[TurnEvent]:
        while self.problem is None and self.state():
            pass
        events, self.events = self.events, []
        return events

    def finish(self) -> tuple[list[TurnEvent], Turn]:
        """Read the rest, knowing that nothing follows, and return what was found."""
        self.final = True
        events = self._run()
        complete = self.problem is None and self.state in (
            self._text,
            self._json_answer,
            self._whole_answer,
            self._no_more,
            self._after_call,
        )
        if self.problem is None and self.state == self._after_call and self.form.calls_end:
            complete = False
        if self.problem is None and not complete:
            self.problem = "the turn ends within reasoning, a marker or a call"
        begin = self.unit if self.problem is not None else len(self.buffer)
        broken = None
        if self.problem is not None:
            broken = self.places[begin][0] if begin < len(self.places) else self.places[-1][1] if self.places else 0
        reasoning = None if self.reasonings is None else self.markers.plain("".join(self.reasonings))
        return events, Turn(
            tuple(self.calls),
            self.markers.plain("".join(self.texts)),
            reasoning,
            self.markers.plain(self.buffer[begin:]),
            broken,
            self.problem,
            complete=complete,
        )

    def may_lack_markers(self) -> bool:
        """Whether special tokens may have been removed from the text, so that a call in it was not noticed."""
        if self.form.tokens:
            return not any(character in self.buffer for character in self.markers.name)
        trigger, text = self.form.trigger, self.buffer
        if trigger is None or trigger in text:
            return False
        rests = (
            ((self.form.calls_begin + begin).removeprefix(trigger).lstrip(), end) for begin, end in self.form.heads
        )
        return any(
            rest and rest in text and any(rest + name + end in text for name in self.tools) for rest, end in rests
        )

    def _fail(self, reason: str) -> bool:
        self.problem = reason
        return False

    def _follows(self, text: str) -> bool | None:
        """Whether a marked text follows; None: not enough is known yet."""
        ahead = self.buffer[self.at : self.at + len(text)]
        if ahead == text:
            return True
        return None if not self.final and text.startswith(ahead) else False

    def _upto(self, end: str) -> tuple[str, bool]:
        """Return what can be read before an end marker, and whether that marker follows; this goes on to it, not over it."""
        found = self.buffer.find(end, self.at) if end else -1
        stop = found
        if found < 0:
            held = 0 if self.final else _begun(self.buffer, self.at, end)
            stop = len(self.buffer) - held
        read, self.at = self.buffer[self.at : stop], stop
        return read, found >= 0

    # States

    def _reasoning_begin(self) -> bool:
        begin = self._marked(self.form.reasoning_begin)
        found = self._follows(begin) if begin else False
        if found is None:
            return False
        if found:
            self.at += len(begin)
        elif self.form.reasoning_opened:
            return self._fail(f"reasoning begins with {self.form.reasoning_begin!r}")
        self.state = self._reasoning
        return True

    def _reasoning(self) -> bool:
        assert self.reasonings is not None
        end = self._marked(self.form.reasoning_end or "")
        self.unit = self.at
        read, ended = self._upto(end)
        if read:
            self.reasonings.append(read)
            self.events.append(ReasoningDelta(self.markers.plain(read)))
        self.unit = self.at
        if ended:
            self.at += len(end)
            self.state = self._beginning if self.form.reasoning_opened else self._gap
        return ended

    def _gap(self) -> bool:
        while self.at < len(self.buffer) and self.buffer[self.at] == "\n":
            self.at += 1
        if self.at == len(self.buffer) and not self.final:
            return False
        self.state = self._beginning
        return True

    def _beginning(self) -> bool:
        self.unit = self.at
        if self.form.trigger is not None:
            return self._triggered(self._marked(self.form.trigger))
        for begin, end in self.form.heads:
            head = self._marked(self.form.calls_begin + begin)
            found = self._follows(head)
            if found and self.answer:
                # An answer may be an object with a member that is named like the first one of a call.
                ways = [self._follows(head + name + self._marked(end)) for name in self.tools]
                found = True if True in ways else None if None in ways else False
            if found is not False:
                self.state = self._call if found else self.state
                return bool(found)
        begin = self._marked(self.form.text_begin)
        found = self._follows(begin) if begin else True
        if found is None:
            return False
        if not found:
            return self._fail(f"a turn begins with a call or with {self.form.text_begin!r}")
        self.at += len(begin)
        self.state = self._text
        return True

    def _triggered(self, trigger: str) -> bool:
        """Decide what the turn begins with: a call, an answer, or text."""
        if self.answer and not self.preamble:
            # Text that does not begin with a call is an answer as a whole.
            found = self._follows(trigger)
            self.state = self.state if found is None else self._text if found else self._whole_answer
            return found is not None
        if self.answer and self.at == len(self.buffer) and not self.final:
            return False
        is_json = self.answer and self.buffer[self.at : self.at + 1] in ("{", "[", '"')
        self.scan, self.state = (JsonEnd(self.at), self._json_answer) if is_json else (None, self._text)
        return True

    def _whole_answer(self) -> bool:
        self._add_text(self.buffer[self.at :])
        self.at = len(self.buffer)
        return False

    def _json_answer(self) -> bool:
        """Read an answer: a trigger in its strings is text."""
        assert self.scan is not None
        end = self.scan.find(self.buffer)
        self._add_text(self.buffer[self.at : self.scan.position])
        self.at = self.scan.position
        self.state = self._json_answer if end is None else self._text
        return end is not None

    def _text(self) -> bool:
        self.unit = self.at
        trigger = self._marked(self.form.trigger or "")
        read, begins = self._upto(trigger)
        self._add_text(read)
        self.unit = self.at
        if begins:
            self.state = self._call
        return begins

    def _add_text(self, read: str) -> None:
        if read:
            self.texts.append(read)
            self.events.append(TextDelta(self.markers.plain(read)))

    def _call(self) -> bool:
        """Read up to the arguments of a call."""
        waiting = False
        first = "" if self.calls else self.form.calls_begin
        for begin, name_end in self.form.heads:
            head = self._marked(first + begin)
            found = self._follows(head)
            waiting |= found is None
            if not found:
                continue
            start = self.at + len(head)
            end = self.buffer.find(self._marked(name_end), start)
            if end < 0:
                waiting |= not self.final and len(self.buffer) - start < 400
                continue
            name = self.markers.plain(self.buffer[start:end])
            if name not in self.tools:
                return self._fail(f"there is no tool {name!r}")
            self.call_name, self.at = name, end + len(self._marked(name_end))
            self.shown, self.arguments = self.at, {}
            self.events.append(CallStarted(len(self.calls), name))
            self.scan = JsonEnd(self.at)
            self.xml = (
                XmlReading(self.form, self.markers, self.values(name), self.at)
                if self.form.arguments == "xml"
                else None
            )
            self.state = self._json_arguments if self.xml is None else self._xml_arguments
            return True
        return False if waiting else self._fail("a call does not begin as the format says")

    def _json_arguments(self) -> bool:
        assert self.scan is not None
        if self.at < len(self.buffer) and self.buffer[self.at] != "{":
            return self._fail("the arguments are not a JSON object")
        end = self.scan.find(self.buffer)
        stop = self.scan.position
        self._show(self.at, stop)
        if end is None:
            return False
        try:
            self.arguments = json.loads(self.markers.plain(self.buffer[self.at : end]))
        except (ValueError, RecursionError) as error:
            return self._fail(f"the arguments are not JSON ({error})")
        self.at, self.state = end, self._call_end
        return True

    def _xml_arguments(self) -> bool:
        assert self.xml is not None
        try:
            found = self.xml.read(self.buffer, self.final)
        except ValueError as error:
            return self._fail(str(error))
        self.at = self.xml.at
        self._show(self.xml.start, self.at)
        if found == "none":
            self.arguments, self.state = self.xml.arguments, self._call_end
        return found != "more"

    def _show(self, start: int, stop: int) -> None:
        """Tell of more text of the arguments."""
        if stop > self.shown:
            fresh, so_far = self.buffer[self.shown : stop], self.buffer[start:stop]
            self.events.append(ArgumentsDelta(len(self.calls), self.markers.plain(fresh), self.markers.plain(so_far)))
            self.shown = stop

    def _call_end(self) -> bool:
        end = self._marked(self.form.call_end)
        found = self._follows(end)
        if not found:
            return False if found is None else self._fail(f"a call ends with {self.form.call_end!r}")
        self.at += len(end)
        span = self.places[self.unit][0], self.places[self.at - 1][1]
        done = ToolCall(self.call_name, self.arguments, span)
        self.events.append(CallDone(len(self.calls), done))
        self.calls.append(done)
        self.state, self.unit = self._after_call, self.at
        return True

    def _after_call(self) -> bool:
        """Read what follows a call: another one, the end of all, or nothing."""
        end = self._marked(self.form.calls_end)
        found = self._follows(end) if end else False
        if found:
            self.at += len(end)
            self.unit, self.state = self.at, self._no_more
            return True
        again = self._marked(self.form.separator or "")
        another = self._follows(again) if self.parallel and self.at < len(self.buffer) else None
        if another and self.at + len(again) < len(self.buffer):
            self.at += len(again)
            self.unit, self.state = self.at, self._call
            return True
        if self.at == len(self.buffer) or found is None or (self.parallel and another is not False and not self.final):
            return False
        return self._fail("text follows a call")

    def _no_more(self) -> bool:
        return False if self.at == len(self.buffer) else self._fail("text follows the calls")


def _begun(text: str, start: int, marker: str) -> int:
    """Return how many of the last characters of a text begin a marker."""
    most = min(len(marker) - 1, len(text) - start)
    return next((size for size in range(most, 0, -1) if text.endswith(marker[:size])), 0)
