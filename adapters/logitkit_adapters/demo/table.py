"""Plain-text tables with fixed columns; text that is too wide continues on the next line."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

__all__ = ["WIDTH", "Cell", "columns", "quoted", "visible", "width"]

WIDTH = 100
_GAP = 2


class Cell(NamedTuple):
    """The text of a cell, a style for `Console.styled`, and whether the text is right-aligned."""

    text: str
    style: str = ""
    right: bool = False


def columns(cells: Sequence[Cell], widths: Sequence[int], styled: Callable[[str, str], str]) -> list[str]:
    """Place cells side by side.

    Args:
        cells: One per column, of printable characters.
        widths: The widths of the columns, in terminal cells; columns are two blanks apart.
        styled: A function that returns a text in a style.

    Returns:
        The number of lines that the longest cell needs.

    Example:
        >>> columns([Cell("one two"), Cell("3", right=True)], [4, 3], lambda text, style: text)
        ['one     3', 'two']
    """
    pieces = [_wrapped(cell.text, size) for cell, size in zip(cells, widths, strict=True)]
    lines = []
    for texts in zip_longest(*pieces, fillvalue=""):
        placed = [_placed(*line, styled) for line in zip(texts, cells, widths, strict=True)]
        lines.append((" " * _GAP).join(placed).rstrip(" "))
    return lines


def _placed(text: str, cell: Cell, size: int, styled: Callable[[str, str], str]) -> str:
    """Return a line of a cell, filled up with blanks to the width of its column."""
    blanks = " " * (size - width(text))
    shown = styled(text, cell.style) if text else ""
    return blanks + shown if cell.right else shown + blanks


def quoted(text: str) -> str:
    r"""Put text in quotation marks, with control characters and line ends escaped.

    Example:
        >>> print(quoted("a\n\x1b[31mb "))
        'a\n\x1b[31mb '
    """
    return f"'{visible(text)}'"


def visible(text: str) -> str:
    """Escape characters that a terminal would interpret instead of showing."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def width(text: str) -> int:
    """Return the number of terminal cells that a text takes.

    Example:
        >>> width("Zoë"), width("東京")
        (3, 4)
    """
    return sum(_width_of(c) for c in text)


def _width_of(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _wrapped(text: str, size: int) -> list[str]:
    """Cut text into lines, after a blank if there is one far enough to the right."""
    lines = []
    while width(text) > size:
        end, used = 1, _width_of(text[0])
        while used + _width_of(text[end]) <= size:
            used += _width_of(text[end])
            end += 1
        blank = text.rfind(" ", end // 4, end + 1)
        end = end if blank < 0 else blank
        lines.append(text[:end])
        text = text[end:].removeprefix(" ") if blank >= 0 else text[end:]
    return [*lines, text] if text or not lines else lines
