"""Reads one call of a turn as it grows: its head with the name of the tool, its arguments, and its end.

Reads arguments between tags as they grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from logitkit.languages.value_ends import ValueEnds
from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.formats import ToolFormat
from logitkit.tools.json_values import JsonEnd, value_of_text
from logitkit.tools.marked_text import Markers
from logitkit.tools.member_values import MemberValues
from logitkit.tools.turn import ArgumentsDelta, CallDone, CallStarted, ToolCall, TurnEvent
from logitkit.tools.turn_text import TurnText

__all__ = ["CallReader", "XmlReading"]


class XmlReading:
    """The arguments of one call.

    Args:
        form: The format.
        markers: The special tokens that count only as tokens.
        values: The sets that the members are in.
        start: The position of the first member.
    """

    def __init__(self, form: ToolFormat, markers: Markers, values: MemberValues, start: int) -> None:
        self.values, self.markers = values, markers
        self.start = self.at = start
        before, after = form.parameter_begin.split("{name}")
        self.before, self.after = markers.marked(before), markers.marked(after)
        self.ends = ValueEnds(tuple(map(markers.marked, form.parameter_ends.texts)))
        self._texts: dict[str, str] = {}
        self.scan: JsonEnd | None = None

    def read(self, text: str, final: bool) -> Literal["member", "more", "none"]:
        """Read a member.

        Args:
            text: The text so far.
            final: Whether nothing follows.

        Returns:
            `"member"` if one was read, `"more"` if it goes on, `"none"` if no member begins here.

        Raises:
            ValueError: The member is not as the format or the schema says.
        """
        ahead = text[self.at : self.at + len(self.before)]
        if ahead != self.before:
            return "more" if not final and self.before.startswith(ahead) else "none"
        start = self.at + len(self.before)
        named = text.find(self.after, start)
        if named < 0:
            return "more"
        name, value_at = self.markers.plain(text[start:named]), named + len(self.after)
        if name in self._texts:
            raise ValueError(f"the member {name!r} is given twice")
        stop = self._value_end(name, text, value_at)
        if stop is None:
            return "more"
        end = next((end for end in self.ends.texts if text.startswith(end, stop)), None)
        if end is None:
            if final or not self._may_end(text, stop):
                allowed = " or ".join(repr(self.markers.plain(end)) for end in self.ends.texts)
                raise ValueError(f"the value of {name!r} does not end with {allowed}")
            return "more"
        self._texts[name] = self.markers.plain(text[value_at:stop])
        # A text that is wrong whatever follows is reported at once.
        self.values.read_alone(name, self._texts[name])
        self.at, self.scan = stop + len(end), None
        return "member"

    def arguments(self) -> dict[str, Any]:
        """Return the values of the members that have been read."""
        return self.values.read(self._texts)

    def _value_end(self, name: str, text: str, start: int) -> int | None:
        """Return where a value ends, or None if it goes on."""
        if start == len(text):
            return None
        closing = text.find(self.ends.marker, start)
        stop = self.ends.stop(text, start, closing) if closing >= 0 else None
        if text[start] in "{[" and (
            not self.values.may_be_string(name) or (stop is not None and not self._may_end(text, stop))
        ):
            # In JSON, the closing marker may stand in a string.
            self.scan = self.scan or JsonEnd(start)
            return self.scan.find(text)
        return stop

    def _may_end(self, text: str, stop: int) -> bool:
        """Whether an end stands at a position, or may still do so when more is written."""
        return any(text.startswith(end, stop) or end.startswith(text[stop:]) for end in self.ends.texts)


# A longer name without an end belongs to no tool.
LONGEST_NAME = 400


class CallReader:
    """Reads a call that begins at the place up to which a text has been read.

    Each state is a method that reads on, and returns whether it got further. Where it needs more text, it returns False and is
    called again.

    Args:
        text: The text.
        form: The format.
        markers: The special tokens that count only as tokens.
        tools: The tools, by name.
        values: Returns what the members of a tool's arguments may be.
        number: How many calls stand before it.
        begin: Where it begins, with the marker before it.
    """

    def __init__(
        self,
        text: TurnText,
        form: ToolFormat,
        markers: Markers,
        tools: Mapping[str, ToolDefinition],
        values: Callable[[str], MemberValues],
        number: int,
        begin: int,
    ) -> None:
        self.text, self.form, self.markers, self.tools, self.values = text, form, markers, tools, values
        self.number, self.begin = number, begin
        self._events: list[TurnEvent] = []
        self._done: ToolCall | None = None
        self._name = ""
        self._arguments: Any = {}
        self._scan = JsonEnd(0)
        self._xml: XmlReading | None = None
        # The arguments up to here have been reported.
        self._shown = 0
        self._state = self._head

    def read(self, events: list[TurnEvent]) -> ToolCall | None:
        """Read on, and return the call if it has ended.

        Args:
            events: The list to which events are added.

        Raises:
            ValueError: The text is not a call.
        """
        self._events = events
        while self._done is None and self._state():
            pass
        return self._done

    def _head(self) -> bool:
        """Read up to the arguments."""
        waiting = False
        first = "" if self.number else self.form.calls_begin
        for begin, name_end in self.form.heads:
            head, tail = self.markers.marked(first + begin), self.markers.marked(name_end)
            found = self.text.follows(head)
            waiting |= found is None
            if not found:
                continue
            start = self.text.at + len(head)
            end = self.text.so_far.find(tail, start)
            if end < 0:
                waiting |= not self.text.final and len(self.text.so_far) - start < LONGEST_NAME
                continue
            self._name = self.markers.plain(self.text.so_far[start:end])
            self._begin_arguments(end + len(tail))
            return True
        if not waiting:
            raise ValueError("a call does not begin as the format says")
        return False

    def _begin_arguments(self, start: int) -> None:
        if self._name not in self.tools:
            raise ValueError(f"there is no tool {self._name!r}")
        self.text.at = self._shown = start
        self._events.append(CallStarted(self.number, self._name))
        if self.form.arguments == "xml":
            self._xml = XmlReading(self.form, self.markers, self.values(self._name), start)
            self._state = self._xml_arguments
        else:
            self._scan, self._state = JsonEnd(start), self._json_arguments

    def _json_arguments(self) -> bool:
        begin, text = self.text.at, self.text.so_far
        if begin < len(text) and text[begin] != "{":
            raise ValueError("the arguments are not a JSON object")
        end = self._scan.find(text)
        self._show(begin, self._scan.position)
        if end is None:
            return False
        try:
            self._arguments = value_of_text(self.markers.plain(text[begin:end]))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the arguments cannot be read as JSON ({error})") from error
        self.text.at, self._state = end, self._end
        return True

    def _xml_arguments(self) -> bool:
        assert self._xml is not None
        found = self._xml.read(self.text.so_far, self.text.final)
        self.text.at = self._xml.at
        self._show(self._xml.start, self._xml.at)
        if found == "none":
            self._arguments, self._state = self._xml.arguments(), self._end
        return found != "more"

    def _show(self, start: int, stop: int) -> None:
        """Report more text of the arguments."""
        if stop > self._shown:
            fresh, so_far = (self.markers.plain(self.text.so_far[place:stop]) for place in (self._shown, start))
            self._events.append(ArgumentsDelta(self.number, fresh, so_far))
            self._shown = stop

    def _end(self) -> bool:
        found = self.text.skip(self.markers.marked(self.form.call_end))
        if found is False:
            raise ValueError(f"a call ends with {self.form.call_end!r}")
        if found:
            self._done = ToolCall(self._name, self._arguments, self.text.span(self.begin))
            self._events.append(CallDone(self.number, self._done))
        return False
