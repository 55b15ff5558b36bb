"""Reads arguments between tags as they grow."""

from __future__ import annotations

from typing import Any, Literal

from logitkit.tools.formats import ToolFormat
from logitkit.tools.json_values import JsonEnd
from logitkit.tools.marked_text import Markers
from logitkit.tools.member_values import MemberValues

__all__ = ["XmlReading"]


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
        self.end = markers.marked(form.parameter_end)
        self.closing = self.end.strip()
        self.lead = self.end.index(self.closing)
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
        if not text.startswith(self.end, stop):
            if final or not self.end.startswith(text[stop:]):
                raise ValueError(f"the value of {name!r} does not end with {self.markers.plain(self.end)!r}")
            return "more"
        self._texts[name] = self.markers.plain(text[value_at:stop])
        # A text that is wrong whatever follows is reported at once.
        self.values.read_alone(name, self._texts[name])
        self.at, self.scan = stop + len(self.end), None
        return "member"

    def arguments(self) -> dict[str, Any]:
        """Return the values of the members that have been read."""
        return self.values.read(self._texts)

    def _value_end(self, name: str, text: str, start: int) -> int | None:
        """Return where a value ends, or None if it goes on."""
        if start == len(text):
            return None
        closing = text.find(self.closing, start)
        stop = max(closing - self.lead, start)
        ends = closing >= 0 and (text.startswith(self.end, stop) or self.end.startswith(text[stop:]))
        if text[start] in "{[" and (not self.values.may_be_string(name) or (closing >= 0 and not ends)):
            # In JSON, the closing marker may stand in a string.
            self.scan = self.scan or JsonEnd(start)
            return self.scan.find(text)
        return None if closing < 0 else stop
