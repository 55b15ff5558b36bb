"""Reads one call of a turn as it grows: its head with the name of the tool, its arguments, and its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from logitkit.tools.call_order import CallOrder
from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.formats import ToolFormat
from logitkit.tools.json_values import JsonEnd, object_of_text, value_of_text
from logitkit.tools.marked_text import Markers
from logitkit.tools.marker_reading import MarkerReading
from logitkit.tools.member_reading import KeywordReading, TaggedReading
from logitkit.tools.member_values import MemberValues
from logitkit.tools.turn import ArgumentsDelta, CallDone, CallStarted, ToolCall, TurnEvent
from logitkit.tools.turn_text import TurnText

__all__ = ["CallReader"]


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
        order: Which calls the turn may have.
        before: The names of the tools of the calls before it.
        begin: Where it begins, with the marker before it.
    """

    def __init__(
        self,
        text: TurnText,
        form: ToolFormat,
        markers: Markers,
        tools: Mapping[str, ToolDefinition],
        values: Callable[[str], MemberValues],
        order: CallOrder,
        before: Sequence[str],
        begin: int,
    ) -> None:
        self.text, self.form, self.markers, self.tools, self.values = text, form, markers, tools, values
        self.order, self.before, self.number, self.begin = order, before, len(before), begin
        self._id: str | None = None
        self._events: list[TurnEvent] = []
        self._done: ToolCall | None = None
        self._name = ""
        self._arguments: Any = {}
        self._scan = JsonEnd(0)
        self._members: TaggedReading | KeywordReading | None = None
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
        text, final = self.text.so_far, self.text.final
        for begin, name_end in self.form.heads:
            head = self._reading(first + begin).at(text, self.text.at, final)
            waiting |= head is None
            if not head:
                continue
            start = head[0]
            named = (
                self._reading(name_end).after(text, start, start + LONGEST_NAME, final)
                if name_end
                else self._known_name(start)
            )
            waiting |= named is None
            if not named:
                continue
            end, stop, found = named
            name = self.markers.plain(text[start:end])
            again = self._again(name, stop)
            waiting |= again is None
            if not again:
                continue
            self._id = found or again[1] or head[1]
            self._name = name
            self._begin_arguments(again[0])
            return True
        if not waiting:
            raise ValueError("a call does not begin as the format says")
        return False

    def _again(self, name: str, stop: int) -> tuple[int, str | None] | Literal[False] | None:
        """Return where the second copy of a name ends with what follows it, and the id there; as `MarkerReading.at`."""
        if self.form.name_again is None:
            return stop, None
        return self._reading(name + self.form.name_again).at(self.text.so_far, stop, self.text.final)

    def _known_name(self, start: int) -> tuple[int, int, None] | Literal[False] | None:
        """Return where the name of a tool ends that no text follows; None: not enough is known yet."""
        text, final = self.text.so_far, self.text.final
        waiting = False
        for name in self.tools:
            ahead = text[start : start + len(name)]
            if ahead != name:
                waiting |= name.startswith(ahead) and not final
                continue
            stop = start + len(name)
            ways = [self._reading(after).at(text, stop, final) for after in self.form.after_names]
            if any(ways):
                return stop, stop, None
            waiting |= None in ways
        return None if waiting else False

    def _reading(self, marker: str) -> MarkerReading:
        return MarkerReading(marker, self.markers, self.form.id_length)

    def _begin_arguments(self, start: int) -> None:
        if self._name not in self.tools:
            raise ValueError(f"there is no tool {self._name!r}")
        problem = self.order.problem(self.before, self._name)
        if problem is not None:
            raise ValueError(problem)
        self.text.at = self._shown = start
        self._events.append(CallStarted(self.number, self._name))
        if not self.form.arguments.startswith("json"):
            reading = TaggedReading if self.form.arguments == "xml" else KeywordReading
            self._members = reading(self.form, self.markers, self.values(self._name), start)
            self._state = self._member_arguments
        else:
            self._scan, self._state = JsonEnd(start), self._json_arguments

    def _json_arguments(self) -> bool:
        begin, text = self.text.at, self.text.so_far
        opening, named = ("{", "object") if self.form.arguments == "json" else ('"', "string")
        if begin < len(text) and text[begin] != opening:
            raise ValueError(f"the arguments are not a JSON {named}")
        end = self._scan.find(text)
        self._show(begin, self._scan.position)
        if end is None:
            return False
        try:
            self._arguments = value_of_text(self.markers.plain(text[begin:end]))
            if self.form.arguments == "json_string":
                self._arguments = object_of_text(self._arguments)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the arguments cannot be read as JSON ({error})") from error
        self.text.at, self._state = end, self._end
        return True

    def _member_arguments(self) -> bool:
        assert self._members is not None
        found = self._members.read(self.text.so_far, self.text.final)
        self.text.at = self._members.at
        self._show(self._members.start, self._members.at)
        if found == "none":
            self._arguments, self._state = self._members.arguments(), self._end
        return found != "more"

    def _show(self, start: int, stop: int) -> None:
        """Report more text of the arguments."""
        if stop > self._shown:
            fresh, so_far = (self.markers.plain(self.text.so_far[place:stop]) for place in (self._shown, start))
            self._events.append(ArgumentsDelta(self.number, fresh, so_far))
            self._shown = stop

    def _end(self) -> bool:
        found = self._reading(self.form.call_end).at(self.text.so_far, self.text.at, self.text.final)
        if found is False:
            raise ValueError(f"a call ends with {self.form.call_end!r}")
        if found:
            self.text.at = found[0]
            self._done = ToolCall(self._name, self._arguments, self.text.span(self.begin), found[1] or self._id)
            self._events.append(CallDone(self.number, self._done))
        return False
