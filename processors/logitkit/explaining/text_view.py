"""An explanation as plain text: a verdict, a table of tokens, and the reason of a refusal."""

from __future__ import annotations

from collections.abc import Iterator

from logitkit.explaining.findings import Findings
from logitkit.explaining.reason import reason_lines, verdict
from logitkit.explaining.table import columns_of
from logitkit.explaining.visible_text import width

__all__ = ["shown_steps", "text_lines"]

# How many tokens of a long output are shown at its beginning, at its end, and on each side of a refusal.
_NEAR = 20


def shown_steps(found: Findings) -> list[int | None]:
    """Return the positions to show of an output; None where tokens are left out."""
    last = len(found.steps) - 1
    refused = last if found.refused_at is None else found.refused_at
    shown: list[int | None] = []
    for at in range(last + 1):
        if min(at, last - at, abs(at - refused)) < _NEAR:
            shown.append(at)
        elif shown[-1] is not None:
            shown.append(None)
    return shown


def text_lines(found: Findings) -> Iterator[str]:
    """Yield the lines of an explanation.

    Args:
        found: The explanation.
    """
    yield verdict(found)
    if found.steps:
        yield ""
        yield from _table(found)
    reason = list(reason_lines(found))
    if reason:
        yield from ("", *reason)


def _table(found: Findings) -> Iterator[str]:
    columns = columns_of(found)
    rows = [["#", *(column.title for column in columns)]]
    rows += [
        ["..."] if at is None else [str(at), *(column.text(found.steps[at]) for column in columns)]
        for at in shown_steps(found)
    ]
    widths = [max(width(row[at]) for row in rows if at < len(row)) for at in range(len(columns) + 1)]
    right = [True, *(column.is_number for column in columns)]
    for row in rows:
        cells = zip(row, widths, right, strict=False)
        line = [
            " " * (size - width(cell)) + cell if number else cell + " " * (size - width(cell))
            for cell, size, number in cells
        ]
        yield "  ".join(line).rstrip()
