r"""Text of tokens as people can read it: bytes that are not UTF-8 and control characters are escaped.

`codecs` decodes as much of a text as is complete, so that a mark can stand under the character to which a byte belongs.
"""

from __future__ import annotations

import codecs
import unicodedata

__all__ = ["before_byte", "quoted", "shortened", "visible", "width"]

_LONGEST = 80


def visible(text: str | bytes) -> str:
    r"""Escape characters that a terminal would interpret instead of showing, and bytes that are not UTF-8.

    Example:
        >>> print(visible(b"a\n\xff\x1b[31m"))
        a\n\xff\x1b[31m
    """
    text = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def quoted(text: str | bytes) -> str:
    """Put visible text in quotation marks."""
    return f"'{visible(text)}'"


def shortened(text: str) -> str:
    """Return a text, of a long one the beginning."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def before_byte(data: bytes, byte: int) -> str:
    """Return the visible text before the character to which a byte belongs.

    Example:
        >>> before_byte("aé".encode(), 2)
        'a'
    """
    return visible(codecs.getincrementaldecoder("utf-8")("backslashreplace").decode(data[:byte]))


def width(text: str) -> int:
    """Return the number of terminal cells that a text takes.

    Example:
        >>> width("Zoë"), width("東京")
        (3, 4)
    """
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
