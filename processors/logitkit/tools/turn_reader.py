"""Reads a turn as it grows, with the same format and tools that make up its language."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from logitkit.tools.call_order import CallOrder
from logitkit.tools.call_reader import CallReader
from logitkit.tools.definitions import ToolDefinition
from logitkit.tools.formats import ToolFormat
from logitkit.tools.formats.call_ids import pieces_of
from logitkit.tools.json_values import JsonEnd
from logitkit.tools.marked_text import Markers
from logitkit.tools.marker_reading import MarkerReading
from logitkit.tools.member_values import MemberValues
from logitkit.tools.turn import ReasoningDelta, TextDelta, ToolCall, Turn, TurnEvent
from logitkit.tools.turn_text import TurnText

__all__ = ["TurnReader"]

Step = Callable[[], bool]


class TurnReader:
    """Reads marked text, piece by piece.

    Each state is a method that reads on, and returns whether it got further. Where it needs more text, it returns False and is
    called again. Where the text is not a turn of the format, it raises ValueError.

    Args:
        tools: The tools, by name.
        form: The format.
        values: Returns what the members of a tool's arguments may be.
        reasoning: Whether the turn begins with reasoning.
        order: Which calls a turn with calls may have.
        answer: Whether a turn without a call is an answer, which may be JSON.
        preamble: Whether text may precede calls beside an answer.
    """

    def __init__(
        self,
        tools: Mapping[str, ToolDefinition],
        form: ToolFormat,
        values: Callable[[str], MemberValues],
        reasoning: bool,
        order: CallOrder,
        answer: bool,
        preamble: bool,
    ) -> None:
        self.tools, self.form, self.values = tools, form, values
        self.markers = Markers(form)
        self.order, self.parallel = order, order.most != 1 and form.separator is not None
        self.answer, self.preamble = answer, preamble
        self.text = TurnText()
        # Where the unit that is being read begins: a call, or a marker.
        self.unit = 0
        self.problem: str | None = None
        self.calls: list[ToolCall] = []
        self.texts: list[str] = []
        self.reasonings: list[str] | None = [] if reasoning else None
        self.events: list[TurnEvent] = []
        self.call: CallReader | None = None
        self.scan: JsonEnd | None = None
        self.state: Step = self._reasoning_begin if reasoning else self._beginning

    def _marked(self, text: str) -> str:
        """Return a marker as it stands in marked text."""
        return self.markers.marked(text)

    def feed(self, pieces: Iterable[tuple[str, int, int]]) -> list[TurnEvent]:
        """Read more: characters, each with its first position and the one after its last."""
        self.text.add(pieces)
        return self._run()

    def _run(self) -> list[TurnEvent]:
        try:
            while self.problem is None and self.state():
                pass
        except ValueError as error:
            self.problem = str(error)
        events, self.events = self.events, []
        return events

    def finish(self) -> tuple[list[TurnEvent], Turn]:
        """Read the rest, knowing that nothing follows, and return what was found."""
        self.text.final = True
        events = self._run()
        ends = [self._text, self._json_answer, self._whole_answer, self._no_more]
        if not self.form.calls_end:
            ends.append(self._after_call)
        complete = self.problem is None and self.state in ends
        missing = self.order.missing(len(self.calls)) if complete else None
        if self.problem is None and not complete:
            self.problem = "the turn ends within reasoning, a marker or a call"
        begin = len(self.text.so_far) if complete else self.unit
        broken = None if complete and missing is None else self.text.first(begin)
        reasoning = None if self.reasonings is None else self.markers.plain("".join(self.reasonings))
        return events, Turn(
            tuple(self.calls),
            self.markers.plain("".join(self.texts)),
            reasoning,
            self.markers.plain(self.text.so_far[begin:]),
            broken,
            self.problem or missing,
            complete=complete and missing is None,
        )

    def may_lack_markers(self) -> bool:
        """Whether special tokens may have been removed from the text, so that a call in it was not noticed."""
        if self.form.tokens:
            return not any(character in self.text.so_far for character in self.markers.name)
        trigger, text = self.form.trigger, self.text.so_far
        if trigger is None or trigger in text:
            return False
        # Of markers with ids, the text next to the name.
        rests = (
            (
                pieces_of((self.form.calls_begin + begin).removeprefix(trigger).lstrip() or " ")[-1],
                (pieces_of(end) or [""])[0],
            )
            for begin, end in self.form.heads
        )
        return any(
            rest.strip() and rest in text and any(rest + name + end in text for name in self.tools)
            for rest, end in rests
        )

    def _reasoning_begin(self) -> bool:
        begin = self._marked(self.form.reasoning_begin)
        found = self.text.skip(begin) if begin else False
        if found is False and self.form.reasoning_opened:
            raise ValueError(f"reasoning begins with {self.form.reasoning_begin!r}")
        if found is not None:
            self.state = self._reasoning
        return found is not None

    def _reasoning(self) -> bool:
        assert self.reasonings is not None
        end = self._marked(self.form.reasoning_end or "")
        read, ended = self.text.upto(end)
        if read:
            self.reasonings.append(read)
            self.events.append(ReasoningDelta(self.markers.plain(read)))
        self.unit = self.text.at
        if ended:
            self.text.skip(end)
            self.state = self._beginning if self.form.reasoning_opened else self._gap
        return ended

    def _gap(self) -> bool:
        while self.text.skip("\n"):
            pass
        if self.text.is_read and not self.text.final:
            return False
        self.state = self._beginning
        return True

    def _beginning(self) -> bool:
        self.unit = self.text.at
        if self.form.trigger is not None:
            return self._triggered(self._marked(self.form.trigger))
        if self.form.leading_space:
            leading = self._leading()
            if leading is None:
                return False
            self.unit = self.text.at = self.text.at + leading
        for begin, end in self.form.heads:
            found = self._begins(self.form.calls_begin + begin, end)
            if found is not False:
                self.state = self._call if found else self.state
                return bool(found)
        begin = self._marked(self.form.text_begin)
        found = self.text.skip(begin) if begin else True
        if found is False:
            raise ValueError(f"a turn begins with a call or with {self.form.text_begin!r}")
        if found:
            self.state = self._text
        return bool(found)

    def _leading(self) -> int | None:
        """Return how much white space to leave out before calls; None: not enough is known yet."""
        space = self._marked(self.form.leading_space)
        found = self.text.follows(space)
        if not found:
            return None if found is None else 0
        if self.text.at + len(space) == len(self.text.so_far) and not self.text.final:
            return None
        # Before an answer, white space is its text.
        before = self.text.at
        self.text.at += len(space)
        ways = [self._begins(self.form.calls_begin + begin, end) for begin, end in self.form.heads]
        self.text.at = before
        return len(space) if True in ways else None if None in ways else 0

    def _begins(self, begin: str, name_end: str) -> bool | None:
        """Whether calls begin here; None: not enough is known yet."""
        text, final = self.text.so_far, self.text.final
        head = MarkerReading(begin, self.markers, self.form.id_length).at(text, self.text.at, final)
        # An answer may be an object with a member that is named like the first one of a call, a call may begin with the name, and
        # a marker before text may begin as a call does.
        shared = begin == "" or self.answer or self.form.text_begin.startswith(begin)
        if not head or not shared:
            return None if head is None else bool(head)
        ways: list[bool | None] = []
        for name in self.tools:
            ahead = text[head[0] : head[0] + len(name)]
            if ahead != name:
                ways.append(None if name.startswith(ahead) and not final else False)
                continue
            named = MarkerReading(self.form.named(name, name_end), self.markers, self.form.id_length)
            found = named.at(text, head[0], final)
            ways.append(None if found is None else bool(found))
        return True if True in ways else None if None in ways else False

    def _triggered(self, trigger: str) -> bool:
        """Decide what the turn begins with: a call, an answer, or text."""
        if self.answer and not self.preamble:
            # Text that does not begin with a call is an answer as a whole.
            found = self.text.follows(trigger)
            self.state = self.state if found is None else self._text if found else self._whole_answer
            return found is not None
        if self.answer and self.text.is_read and not self.text.final:
            return False
        is_json = self.answer and self.text.so_far[self.text.at : self.text.at + 1] in ("{", "[", '"')
        self.scan, self.state = (JsonEnd(self.text.at), self._json_answer) if is_json else (None, self._text)
        return True

    def _whole_answer(self) -> bool:
        self._add_text(self.text.upto("")[0])
        return False

    def _json_answer(self) -> bool:
        """Read an answer: a trigger in its strings is text."""
        assert self.scan is not None
        end = self.scan.find(self.text.so_far)
        self._add_text(self.text.so_far[self.text.at : self.scan.position])
        self.text.at = self.scan.position
        self.state = self._json_answer if end is None else self._text
        return end is not None

    def _text(self) -> bool:
        read, begins = self.text.upto(self._marked(self.form.trigger or ""))
        self._add_text(read)
        self.unit = self.text.at
        if begins:
            self.state = self._call
        return begins

    def _add_text(self, read: str) -> None:
        if read:
            self.texts.append(read)
            self.events.append(TextDelta(self.markers.plain(read)))

    def _call(self) -> bool:
        if self.call is None:
            before = [call.name for call in self.calls]
            self.call = CallReader(
                self.text, self.form, self.markers, self.tools, self.values, self.order, before, self.unit
            )
        done = self.call.read(self.events)
        if done is None:
            return False
        self.calls.append(done)
        self.call, self.state, self.unit = None, self._after_call, self.text.at
        return True

    def _after_call(self) -> bool:
        """Read what follows a call: another one, the end of all, or nothing."""
        end = self._marked(self.form.calls_end)
        found = self.text.skip(end) if end else False
        if found:
            self.unit, self.state = self.text.at, self._no_more
            return True
        if found is None:
            # The end and another call may begin alike.
            return False
        again = self._marked(self.form.separator or "")
        another = self.text.follows(again) if self.parallel and not self.text.is_read else None
        if another and self.text.at + len(again) < len(self.text.so_far):
            self.text.skip(again)
            self.unit, self.state = self.text.at, self._call
            return True
        if self.text.is_read or (self.parallel and another is not False and not self.text.final):
            return False
        raise ValueError("text follows a call")

    def _no_more(self) -> bool:
        if not self.text.is_read:
            raise ValueError("text follows the calls")
        return False
