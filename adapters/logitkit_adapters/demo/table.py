"""Plain-text tables with fixed columns; text that is too wide continues on the next line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest
from typing import NamedTuple

from logitkit.explaining.visible_text import quoted, visible, width

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


def _wrapped(text: str, size: int) -> list[str]:
    """Cut text into lines, after a blank if there is one far enough to the right."""
    lines = []
    while width(text) > size:
        end, used = 1, width(text[0])
        while used + width(text[end]) <= size:
            used += width(text[end])
            end += 1
        blank = text.rfind(" ", end // 4, end + 1)
        end = end if blank < 0 else blank
        lines.append(text[:end])
        text = text[end:].removeprefix(" ") if blank >= 0 else text[end:]
    return [*lines, text] if text or not lines else lines
