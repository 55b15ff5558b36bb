"""The bytes of JSON texts: those between values, those of numbers, and whether one stands in a string."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["JsonMode", "number_at_end"]

COMMA, COLON, QUOTE, BACKSLASH = b',:"\\'
OPENING, CLOSING, SPACE = b"[{", b"]}", b" \t\n\r"
DIGITS = b"0123456789"
# The bytes of numbers, those that they begin with, and those that may stand after one.
IN_NUMBER, BEGINS_NUMBER, AFTER_NUMBER = DIGITS + b"+-.eE", DIGITS + b"-", b"," + CLOSING + SPACE


class JsonMode(IntEnum):
    """Where a byte of a JSON text stands."""

    OUTSIDE = 0
    """Outside of strings."""
    STRING = 1
    """In a string."""
    ESCAPED = 2
    """After a backslash in a string."""


# Reading a member of an enumeration takes ten times as long.
OUTSIDE, STRING, ESCAPED = JsonMode


def number_at_end(text: bytes) -> bytes:
    """Return the number, or the beginning of one, at the end of a text that ends outside of strings; empty if there is none.

    Example:
        >>> number_at_end(b'[1,"a",-2.5'), number_at_end(b'["1"'), number_at_end(b"[tru")
        (b'-2.5', b'', b'')
    """
    # A value stands after one of these.
    found = text[max(map(text.rfind, (b"[", b",", b":"))) + 1 :]
    return found if found and found[-1] in IN_NUMBER and found[0] in BEGINS_NUMBER else b""
