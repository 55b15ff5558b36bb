r"""Values with strings between delimiters, such as `{tags:[<|"|>a<|"|>],days:2}`: where one ends, what it is, and its text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from logitkit.json_schema.delimited_strings import BARE_NAME
from logitkit.tools.json_values import text_of_value, value_of_text

__all__ = ["DelimitedEnd", "text_of_delimited", "value_of_delimited"]

_SPACE = re.compile(r"[ \n]*")
# A value without brackets and delimiters.
_SCALAR = re.compile(r"[A-Za-z0-9.+-]*")
_LITERALS: Mapping[str, Mapping[str, bool | None]] = {
    "json": {"true": True, "false": False, "null": None},
    "python": {"True": True, "False": False, "None": None},
    "none": {"true": True, "false": False, "None": None},
}


class DelimitedEnd:
    """Looks for the end of a value, each character once or, near the last one, twice.

    Args:
        start: The position of the opening bracket, or of the delimiter.
        delimiter: The text around strings.

    Example:
        >>> DelimitedEnd(0, "<|>").find("{a:<|>}<|>} and more")
        11
    """

    def __init__(self, start: int, delimiter: str) -> None:
        self.position = start
        self.end: int | None = None
        self._delimiter, self._depth, self._in_string = delimiter, 0, False
        self._outside = re.compile(rf"{re.escape(delimiter)}|[{{}}\[\]]")

    def find(self, text: str) -> int | None:
        """Return the position after the value, or None if it goes on.

        Args:
            text: The text so far; each time, the text of the last call with more after it.
        """
        size = len(self._delimiter)
        while self.end is None:
            if self._in_string:
                at = text.find(self._delimiter, self.position)
                found = "" if at < 0 else self._delimiter
            else:
                match = self._outside.search(text, self.position)
                at, found = (-1, "") if match is None else (match.start(), match.group())
            if at < 0:
                # The last characters may be the first ones of a delimiter.
                self.position = max(self.position, len(text) - size + 1)
                return None
            self.position = at + len(found)
            if found == self._delimiter:
                self._in_string = not self._in_string
            else:
                self._depth += 1 if found in "{[" else -1
            if not self._in_string and self._depth <= 0:
                self.end = self.position
        return self.end


def value_of_delimited(text: str, delimiter: str, bare_names: bool, literals: str) -> Any:
    """Return the value of a text.

    Args:
        text: The text.
        delimiter: The text around strings.
        bare_names: Whether names in objects have no quotes.
        literals: How true, false and null are written, as in `ToolFormat`.

    Raises:
        NumberTooLarge: A number is too large for Python.
        ValueError: It is not such a text.
        RecursionError: It is nested too deeply.

    Example:
        >>> value_of_delimited('{a:[<|>x "y"<|>,1,None],b:{}}', "<|>", True, "none")
        {'a': ['x "y"', 1, None], 'b': {}}
    """
    reader = _ValueReader(text, delimiter, bare_names, literals)
    found = reader.value()
    if reader.at != len(text):
        raise ValueError(f"{text[reader.at : reader.at + 80]!r} follows a value")
    return found


class _ValueReader:
    def __init__(self, text: str, delimiter: str, bare_names: bool, literals: str) -> None:
        self.text, self.delimiter, self.bare_names = text, delimiter, bare_names
        self.literals = _LITERALS[literals]
        self.at = 0

    def value(self) -> Any:
        first = self.text[self.at : self.at + 1]
        if self.text.startswith(self.delimiter, self.at):
            return self.string()
        if first == "{":
            return self.object()
        if first == "[":
            return self.array()
        found = _SCALAR.match(self.text, self.at)
        assert found is not None
        word = found.group()
        self.at = found.end()
        if word in self.literals:
            return self.literals[word]
        if not word or word[0] not in "-0123456789":
            raise ValueError(f"{(word or first)!r} is not a value")
        return value_of_text(word)

    def string(self) -> str:
        start = self.at + len(self.delimiter)
        stop = self.text.find(self.delimiter, start)
        if stop < 0:
            raise ValueError("a string does not end")
        self.at = stop + len(self.delimiter)
        return self.text[start:stop]

    def object(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.goes_on("{" if not found else ",", "}", not found):
            name = self.name()
            if name in found:
                raise ValueError(f"the member {name!r} is given twice")
            self.take(":")
            found[name] = self.value()
        return found

    def array(self) -> list[Any]:
        found: list[Any] = []
        while self.goes_on("[" if not found else ",", "]", not found):
            found.append(self.value())
        return found

    def goes_on(self, before: str, end: str, is_first: bool) -> bool:
        """Read what stands before a member or an item, and return whether there is one."""
        if is_first:
            self.take(before)
            self.space()
        elif self.text[self.at : self.at + 1] == before:
            self.take(before)
            return True
        else:
            self.space()
        if self.text[self.at : self.at + 1] == end:
            self.at += 1
            return False
        if not is_first:
            raise ValueError(f"{self.text[self.at : self.at + 80]!r} follows a value within brackets")
        return True

    def take(self, character: str) -> None:
        if self.text[self.at : self.at + 1] != character:
            raise ValueError(f"{self.text[self.at : self.at + 80]!r} stands where {character!r} is expected")
        self.at += 1
        self.space()

    def space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def name(self) -> str:
        if not self.bare_names:
            if not self.text.startswith(self.delimiter, self.at):
                raise ValueError(f"{self.text[self.at : self.at + 80]!r} is not a name between delimiters")
            return self.string()
        found = BARE_NAME.match(self.text, self.at)
        if found is None or not found.group():
            raise ValueError(f"{self.text[self.at : self.at + 80]!r} is not a name")
        self.at = found.end()
        return found.group()


def text_of_delimited(value: Any, delimiter: str, bare_names: bool, literals: str, compact: bool) -> str:
    """Return the text of a value that `value_of_delimited` reads.

    Args:
        value: The value.
        delimiter: As in `value_of_delimited`.
        bare_names: As in `value_of_delimited`.
        literals: As in `value_of_delimited`.
        compact: Whether there is no space after a comma and a colon.

    Raises:
        TypeError: It is not a JSON value.
        ValueError: It is not a JSON value.
        RecursionError: It is nested too deeply.

    Example:
        >>> text_of_delimited({"a": ["x", None]}, "<|>", True, "json", True)
        '{a:[<|>x<|>,null]}'
    """
    comma, colon = (",", ":") if compact else (", ", ": ")

    def inside(value: Any) -> str:
        return text_of_delimited(value, delimiter, bare_names, literals, compact)

    match value:
        case None | bool():
            return next(word for word, meant in _LITERALS[literals].items() if meant is value)
        case str():
            return delimiter + value + delimiter
        case dict():
            names = [name if bare_names else inside(name) for name in value]
            return (
                "{"
                + comma.join(name + colon + inside(one) for name, one in zip(names, value.values(), strict=True))
                + "}"
            )
        case list():
            return "[" + comma.join(map(inside, value)) + "]"
        case _:
            return text_of_value(value)
