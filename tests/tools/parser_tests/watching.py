"""Keeps the readings of the test in progress, of whole texts and of streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from logitkit import ToolFormat
from logitkit.tools.turn import CallDone, CallStarted, TextDelta, TurnEvent
from logitkit.tools.turn_stream import TextTurnStream
from tests.tools.parser_tests.parser_formats import formats_of_parser
from tests.tools.parser_tests.readings import Reading, definitions_in, read, tools_of
from tests.tools.parser_tests.records import AnyText

# The text around calls that tests are given: as we read it, nothing, or a text that is equal to any other.
TEXTS = ("read", "none", "any")


class InsideOfParser(Exception):
    """A test asks for more of a parser than what it reads."""


class NoFormat(Exception):
    """A test uses a parser whose format we do not have."""


class Watch:
    """The readings of the test in progress.

    Args:
        derived: The formats that were derived from chat templates.
    """

    def __init__(self, derived: Mapping[str, ToolFormat]) -> None:
        self._derived = derived
        self.texts = "read"
        self.readings: list[Reading] = []
        self.streams: list[Stream] = []
        self.missing: set[str] = set()

    def begin(self) -> None:
        """Begin another test."""
        self.readings, self.streams, self.missing = [], [], set()

    def formats_of(self, parser: str) -> tuple[ToolFormat, ...]:
        """Return the formats of a parser."""
        forms = formats_of_parser(parser, self._derived)
        if not forms:
            self.missing.add(parser)
            raise NoFormat(parser)
        return forms

    def read(self, parser: str, given: Any, text: str) -> Reading:
        """Read a text, and note it."""
        found = read(parser, self.formats_of(parser), given, text)
        self.readings.append(found)
        return found

    def text_around(self, text: str) -> Any:
        """Return the text around calls as the tests are given it."""
        return {"read": text, "none": "", "any": AnyText(text or " ")}[self.texts]

    def text_streamed(self, text: str) -> str:
        """Return new text around calls as the tests are given it."""
        return "" if self.texts == "none" else text


class Stream:
    """A text that a test streams.

    Args:
        watch: The readings of the test.
        parser: The name of the parser.
        given: The tools of the test.
    """

    def __init__(self, watch: Watch, parser: str, given: Any) -> None:
        self.watch, self.parser, self.given = watch, parser, given
        self.text, self._done = "", 0
        # For each format, the tools, the stream and its events.
        self._streams: dict[ToolFormat, tuple[str, TextTurnStream, list[TurnEvent]]] = {}
        watch.streams.append(self)

    def feed(self, text: str) -> list[TurnEvent]:
        """Read on, and return the events that are new."""
        self.text += text
        ways = [self._fed(form, text) for form in self.watch.formats_of(self.parser)]
        # Of several formats, one that finds calls, or that holds back the most.
        events = max(ways, key=lambda some: (sum(isinstance(one, CallStarted | CallDone) for one in some), -len(some)))
        fresh, self._done = events[self._done :], max(self._done, len(events))
        return fresh

    def _fed(self, form: ToolFormat, text: str) -> list[TurnEvent]:
        definitions = definitions_in(form, self.given, self.text)
        before, stream, events = self._streams.get(form, ("", None, []))
        if stream is None or definitions != before:
            # Where a test has no tools, names become known with the text.
            stream, events, text = tools_of(form, definitions).stream(), [], self.text
        events = [*events, *_flat(stream.feed(text))]
        self._streams[form] = definitions, stream, events
        return events

    def note(self) -> None:
        """Note what was streamed as a text that was read."""
        if self.text:
            self.watch.read(self.parser, self.given, self.text)


def _flat(events: list[TurnEvent]) -> list[TurnEvent]:
    """Return events with texts cut into characters, and without pieces of arguments."""
    found: list[TurnEvent] = []
    for event in events:
        if isinstance(event, TextDelta):
            found += map(TextDelta, event.text)
        elif isinstance(event, CallStarted | CallDone):
            found.append(event)
    return found
