"""JSON values in turns: where one ends in text that grows, and what it is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, NoReturn

from logitkit.json_schema.string_spellings import StringSpelling, python_string

__all__ = [
    "JsonEnd",
    "NumberTooLarge",
    "object_of_text",
    "python_of_value",
    "text_of_value",
    "value_of_python",
    "value_of_text",
]

_IN_STRING = {quote: re.compile(rf"[{quote}\\]") for quote in "\"'"}
_OUTSIDE = {quotes: re.compile(rf"[{quotes}{{}}\[\]]") for quotes in ('"', "\"'")}


class JsonEnd:
    """Looks for the closing bracket or quote of a value, each character once.

    Args:
        start: The position of the opening one.
        strings: How strings are written, as in `ToolFormat`.

    Example:
        >>> JsonEnd(0).find('{"a": "}"} and more'), JsonEnd(0, "python").find("['}', 5] and more")
        (10, 8)
    """

    def __init__(self, start: int, strings: StringSpelling = "json") -> None:
        self.position = start
        self.end: int | None = None
        self._depth = 0
        self._outside = _OUTSIDE["\"'" if strings == "python" else '"']
        # The quote that ends the string that is being read.
        self._quote: str | None = None

    def find(self, text: str) -> int | None:
        """Return the position after the value, or None if it goes on.

        Args:
            text: The text so far; each time, the text of the last call with more after it.
        """
        while self.end is None:
            found = (_IN_STRING[self._quote] if self._quote else self._outside).search(text, self.position)
            if found is None:
                self.position = len(text)
                return None
            if found.group() == "\\" and found.end() == len(text):
                # The escaped character comes next.
                self.position = found.start()
                return None
            self._read(found.group(), found.start())
        return self.end

    def _read(self, character: str, position: int) -> None:
        self.position = position + (2 if character == "\\" else 1)
        if character in "\"'":
            self._quote = None if self._quote else character
            if not self._quote and not self._depth:
                self.end = self.position
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            if self._depth <= 0:
                self.end = self.position


class NumberTooLarge(ValueError):
    """A number has more digits than Python reads, or becomes an infinite float."""


_PYTHON = {"True": True, "False": False, "None": None}
_IN_JSON = frozenset(("true", "false", "null"))


def value_of_text(text: str, literals: str = "json", strings: StringSpelling = "json") -> Any:
    """Return the value of a JSON text.

    Args:
        text: The text.
        literals: `"python"`: a value that is true, false or null is written as in Python.
        strings: How strings are written; if as in Python, so is all the rest.

    Raises:
        NumberTooLarge: A number is too large for Python.
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.

    Example:
        >>> value_of_text("[1, 2.5]")
        [1, 2.5]
    """
    if strings == "python":
        return value_of_python(text, strings)
    if literals == "python":
        if text in _PYTHON:
            return _PYTHON[text]
        if text in _IN_JSON:
            raise ValueError(f"{text} is not a value where literals are those of Python")
    return json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_refused)


def text_of_value(
    value: Any, literals: str = "json", strings: StringSpelling = "json", *, compact: bool = False
) -> str:
    """Return the JSON text of a value that `value_of_text` reads.

    Args:
        value: The value.
        literals: As in `value_of_text`.
        strings: As in `value_of_text`.
        compact: Whether there is no space after a comma and a colon.

    Raises:
        TypeError: It is not a JSON value.
        ValueError: It is not a JSON value.
        RecursionError: It is nested too deeply.
    """
    if literals == "python" and (value is None or isinstance(value, bool)):
        return str(value)
    if strings == "python":
        return python_of_value(value, strings, compact=compact)
    separators = (",", ":") if compact else None
    return json.dumps(value, ensure_ascii=strings == "ascii", allow_nan=False, separators=separators)


def object_of_text(text: str) -> dict[str, Any]:
    """Return the object of a JSON text.

    Raises:
        NumberTooLarge: A number is too large for Python.
        ValueError: It is not the text of an object.
        RecursionError: It is nested too deeply.
    """
    found = value_of_text(text)
    if isinstance(found, dict):
        return found
    raise ValueError("it is not an object")


_PYTHON_WORDS: Mapping[StringSpelling, re.Pattern[str]] = {
    "json": re.compile(r'"(?:[^"\\]|\\.)*"|[A-Za-z]+', re.DOTALL),
    # A string of Python ends on its line. A quote outside of strings is an error.
    "python": re.compile(r"""'(?:[^'\\\r\n]|\\.)*'|"(?:[^"\\\r\n]|\\.)*"|[A-Za-z]+|["']""", re.DOTALL),
}
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.?))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_TO_JSON = {"True": "true", "False": "false", "None": "null"}


def value_of_python(text: str, strings: StringSpelling = "json") -> Any:
    """Return the value of a JSON text with `True`, `False` and `None`, also inside of arrays and objects.

    Args:
        text: The text.
        strings: How strings are written.

    Raises:
        NumberTooLarge: A number is too large for Python.
        ValueError: It is not such a text.
        RecursionError: It is nested too deeply.

    Example:
        >>> value_of_python('[True, "True"]')
        [True, 'True']
        >>> value_of_python("{'a': [None, 'True']}", "python")
        {'a': [None, 'True']}
    """
    quotes = "\"'" if strings == "python" else '"'

    def in_json(found: re.Match[str]) -> str:
        word = found.group()
        if len(word) > 1 and word[0] in quotes:
            return json.dumps(_ESCAPE.sub(_unescaped, word[1:-1])) if strings == "python" else word
        # An exponent is a part of a number.
        return word if word in ("e", "E") else _TO_JSON.get(word, "?")

    return value_of_text(_PYTHON_WORDS["python" if strings == "python" else "json"].sub(in_json, text))


def _unescaped(found: re.Match[str]) -> str:
    number = found[1] or found[2] or found[3]
    if number is not None:
        code_point = int(number, 16)
        if code_point > 0x10FFFF or 0xD800 <= code_point <= 0xDFFF:
            raise ValueError(f"{found.group()} is not a character")
        return chr(code_point)
    if found[4] not in _ESCAPED:
        raise ValueError(f"{found.group()} is not an escape")
    return _ESCAPED[found[4]]


def python_of_value(value: Any, strings: StringSpelling = "json", *, compact: bool = False) -> str:
    """Return the text of a JSON value that `value_of_python` reads; `compact` is as in `text_of_value`."""

    def written(inside: Any) -> str:
        return python_of_value(inside, strings, compact=compact)

    comma, colon = (",", ":") if compact else (", ", ": ")
    match value:
        case None | bool():
            return str(value)
        case dict():
            members = [f"{written(key)}{colon}{written(inside)}" for key, inside in value.items()]
            return "{" + comma.join(members) + "}"
        case list():
            return "[" + comma.join(map(written, value)) + "]"
        case str() if strings == "python":
            return python_string(value)
        case _:
            return json.dumps(value, ensure_ascii=strings == "ascii", allow_nan=False)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise NumberTooLarge(f"an integer of {len(text)} digits is too large") from error


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NumberTooLarge(f"the number {text[:80]} is too large for a float")
    return value


def _refused(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON value")
