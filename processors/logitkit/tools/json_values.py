"""JSON values in turns: where one ends in text that grows, and what it is."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

__all__ = ["JsonEnd", "NumberTooLarge", "value_of_text"]

_IN_STRING = re.compile(r'["\\]')
_OUTSIDE = re.compile(r'["{}\[\]]')


class JsonEnd:
    """Looks for the closing bracket or quote of a value, each character once.

    Args:
        start: The position of the opening one.

    Example:
        >>> JsonEnd(0).find('{"a": "}"} and more')
        10
    """

    def __init__(self, start: int) -> None:
        self.position = start
        self.end: int | None = None
        self._depth = 0
        self._in_string = False

    def find(self, text: str) -> int | None:
        """Return the position after the value, or None if it goes on.

        Args:
            text: The text so far; each time, the text of the last call with more after it.
        """
        while self.end is None:
            found = (_IN_STRING if self._in_string else _OUTSIDE).search(text, self.position)
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
        if character == '"':
            self._in_string = not self._in_string
            if not self._in_string and not self._depth:
                self.end = self.position
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            if self._depth <= 0:
                self.end = self.position


class NumberTooLarge(ValueError):
    """A number has more digits than Python reads, or becomes an infinite float."""


def value_of_text(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        NumberTooLarge: A number is too large for Python.
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.

    Example:
        >>> value_of_text("[1, 2.5]")
        [1, 2.5]
    """
    return json.loads(text, parse_int=_integer, parse_float=_finite, parse_constant=_refused)


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
