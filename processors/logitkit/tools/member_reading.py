"""Reads the members of a call's arguments as they grow: between tags, or as arguments with names."""

from __future__ import annotations

import re
from typing import Any, Literal

from logitkit.json_schema.delimited_strings import BARE_NAME, ends_bare_names
from logitkit.languages.cdata import SECTION_BEGIN, SECTION_END
from logitkit.languages.value_ends import ValueEnds
from logitkit.tools.delimited_values import DelimitedEnd, value_of_delimited
from logitkit.tools.formats import ToolFormat
from logitkit.tools.formats.call_ids import has_ids
from logitkit.tools.json_values import JsonEnd, value_of_python, value_of_text
from logitkit.tools.marked_text import Markers
from logitkit.tools.member_values import MemberValues, member_text

__all__ = ["KeywordReading", "TaggedReading"]

_PYTHON_NAME = re.compile("[A-Za-z0-9_]*")
# A value without quotes and brackets.
_SCALAR = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|[Tt]rue|[Ff]alse|None|null")
_IN_SCALAR = re.compile(r"[A-Za-z0-9.+-]*")


class TaggedReading:
    """The arguments of one call between tags.

    Args:
        form: The format.
        markers: The special tokens that count only as tokens.
        values: The sets that the members are in.
        start: The position of the first member.
    """

    def __init__(self, form: ToolFormat, markers: Markers, values: MemberValues, start: int) -> None:
        self.values, self.markers, self.form = values, markers, form
        self.literals, self.strings = form.literals, form.string_spelling
        self.start = self.at = start
        before, after = form.parameter_begin.split("{name}")
        self.before = markers.marked(before)
        # Where no text stands before the first name, the end of the call shows that there are no members.
        self.no_members = "" if before or has_ids(form.call_end) else markers.marked(form.call_end)
        # The texts after a name, each with the word in it that says what follows; None: a string or JSON.
        words = [None] if form.kinds is None else [*dict.fromkeys(form.kinds)]
        self.afters = [
            (markers.marked(after if word is None else after.replace("{kind}", word)), word) for word in words
        ]
        self.separator = markers.marked(form.parameter_separator)
        self.ends = ValueEnds(tuple(map(markers.marked, form.parameter_ends.texts)))
        self._texts: dict[str, str] = {}
        # The values of members whose tags say what they are.
        self._told: dict[str, Any] = {}
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
        before = self.separator + self.before if self._texts else self.before
        ahead = text[self.at : self.at + len(before)]
        if ahead != before:
            return "more" if not final and before.startswith(ahead) else "none"
        start = self.at + len(before)
        if self.no_members and not self._texts:
            ahead = text[start : start + len(self.no_members)]
            if ahead == self.no_members:
                return "none"
            if not final and self.no_members.startswith(ahead):
                return "more"
        named = self._after_name(text, start)
        if named is None:
            return "more"
        stop_of_name, value_at, word = named
        is_string = None if word is None else word == self.afters[0][1]
        name = self.markers.plain(text[start:stop_of_name])
        if name in self._texts:
            raise ValueError(f"the member {name!r} is given twice")
        stop = self._value_end(name, text, value_at, is_string)
        if stop is None:
            return "more"
        end = next((end for end in self.ends.texts if text.startswith(end, stop)), None)
        if end is None:
            if final or not self._may_end(text, stop):
                allowed = " or ".join(repr(self.markers.plain(end)) for end in self.ends.texts)
                raise ValueError(f"the value of {name!r} does not end with {allowed}")
            return "more"
        self._read_value(name, self.markers.plain(text[value_at:stop]), word)
        self.at, self.scan = stop + len(end), None
        return "member"

    def _after_name(self, text: str, start: int) -> tuple[int, int, str | None] | None:
        """Return where a name ends and its value begins, and the word in the tag that says what the value is."""
        found = [(at, at + len(after), word) for after, word in self.afters if (at := text.find(after, start)) >= 0]
        return min(found, key=lambda place: place[:2]) if found else None

    def _read_value(self, name: str, value: str, word: str | None) -> None:
        value = member_text(value, self.form.cdata)
        self._texts[name] = value
        if word is None:
            # A text that is wrong whatever follows is reported at once.
            self.values.read_alone(name, value)
            return
        if word == self.afters[0][1]:
            self._told[name] = str(value)
            return
        try:
            found = value_of_text(value, self.literals, self.strings)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the value of {name!r} cannot be read as JSON ({error})") from error
        if len(self.afters) > 2 and self.form.kind_of(found) != word:
            raise ValueError(f"the value of {name!r} is not what its tag says, {word!r}")
        self._told[name] = found

    def arguments(self) -> dict[str, Any]:
        """Return the values of the members that have been read."""
        return self._told if self.form_tells_kinds else self.values.read(self._texts)

    @property
    def form_tells_kinds(self) -> bool:
        """Whether tags say which values are strings."""
        return self.afters[0][1] is not None

    def _value_end(self, name: str, text: str, start: int, is_string: bool | None) -> int | None:
        """Return where a value ends, or None if it goes on."""
        if start == len(text):
            return None
        if self.form.cdata and is_string is not False:
            opening = text[start : start + len(SECTION_BEGIN)]
            if opening == SECTION_BEGIN:
                closing = text.find(SECTION_END, start + len(SECTION_BEGIN))
                return None if closing < 0 else closing + len(SECTION_END)
            if SECTION_BEGIN.startswith(opening):
                return None
        closing = text.find(self.ends.marker, start)
        stop = self.ends.stop(text, start, closing) if closing >= 0 else None
        if text[start] in ('{["' if is_string is False else "{[") and self._is_json(name, text, stop, is_string):
            # In JSON, the closing marker may stand in a string.
            self.scan = self.scan or JsonEnd(start, self.strings)
            return self.scan.find(text)
        return stop

    def _is_json(self, name: str, text: str, stop: int | None, is_string: bool | None) -> bool:
        """Whether a value that begins with a bracket is JSON."""
        if is_string is not None:
            return not is_string
        return not self.values.may_be_string(name) or (stop is not None and not self._may_end(text, stop))

    def _may_end(self, text: str, stop: int) -> bool:
        """Whether an end stands at a position, or may still do so when more is written."""
        return any(text.startswith(end, stop) or end.startswith(text[stop:]) for end in self.ends.texts)


class KeywordReading:
    """The arguments of one call as Python writes them, with names.

    Args:
        form: The format.
        markers: The special tokens that count only as tokens.
        values: The sets that the members are in.
        start: The position of the first member.
    """

    def __init__(self, form: ToolFormat, markers: Markers, values: MemberValues, start: int) -> None:
        self.markers, self.literals, self.strings = markers, form.literals, form.string_spelling
        self.delimited = form.delimited
        # The delimiter as it stands in marked text.
        self.delimiter = markers.marked(form.string_delimiter or "")
        self.start = self.at = start
        before, after = form.parameter_begin.split("{name}")
        self.before, self.after = markers.marked(before), markers.marked(after)
        self.names = BARE_NAME if form.bare_names and ends_bare_names(after) else _PYTHON_NAME
        self.separator = markers.marked(form.parameter_separator)
        # Where no text ends a call, the next one may begin with a word.
        self.may_be_followed_by_name = not form.call_end
        self._read: dict[str, Any] = {}
        self.scan: JsonEnd | DelimitedEnd | None = None

    def read(self, text: str, final: bool) -> Literal["member", "more", "none"]:
        """Read a member; see `TaggedReading.read`."""
        before = self.separator + self.before if self._read else self.before
        ahead = text[self.at : self.at + len(before)]
        if ahead != before:
            return "more" if not final and before.startswith(ahead) else "none"
        start = self.at + len(before)
        named = self.names.match(text, start)
        assert named is not None
        if named.end() == len(text) and not final:
            return "more"
        if not named.group():
            return "none"
        value_at = named.end() + len(self.after)
        ahead = text[named.end() : value_at]
        if ahead != self.after:
            if not final and self.after.startswith(ahead):
                return "more"
            if self.may_be_followed_by_name:
                return "none"
            raise ValueError(f"the name {named.group()!r} is not followed by {self.markers.plain(self.after)!r}")
        if named.group() in self._read:
            raise ValueError(f"the member {named.group()!r} is given twice")
        stop = self._value_end(named.group(), text, value_at, final)
        if stop is None:
            return "more"
        self._read[named.group()] = self._value(named.group(), self.markers.plain(text[value_at:stop]))
        self.at, self.scan = stop, None
        return "member"

    def arguments(self) -> dict[str, Any]:
        """Return the values of the members that have been read."""
        return self._read

    def _value_end(self, name: str, text: str, start: int, final: bool) -> int | None:
        """Return where a value ends, or None if it goes on."""
        if self.delimiter:
            ahead = text[start : start + len(self.delimiter)]
            if ahead == self.delimiter or ahead[:1] in ("{", "["):
                self.scan = self.scan or DelimitedEnd(start, self.delimiter)
                return self.scan.find(text)
            if not final and self.delimiter.startswith(ahead):
                return None
        elif text[start : start + 1] in ("{", "[", '"', *("'" * (self.strings == "python"))):
            self.scan = self.scan or JsonEnd(start, self.strings)
            return self.scan.find(text)
        run = _IN_SCALAR.match(text, start)
        assert run is not None
        if run.end() == len(text) and not final:
            return None
        found = _SCALAR.match(text, start)
        if found is None:
            raise ValueError(f"the value of {name!r} is not a value")
        return found.end()

    def _value(self, name: str, text: str) -> Any:
        try:
            if self.delimited is not None:
                one = self.delimited
                return value_of_delimited(text, one.delimiter, one.bare_names, self.literals)
            return value_of_python(text, self.strings) if self.literals == "python" else value_of_text(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"the value of {name!r} cannot be read ({error})") from error
