"""An explanation for rich, which shows it in colour on a terminal; imported only when rich asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logitkit.explaining.findings import Findings, Step
from logitkit.explaining.reason import reason_lines, verdict
from logitkit.explaining.text_view import columns_of, mark, shown_steps

__all__ = ["renderables"]


def renderables(found: Findings) -> Iterator[Any]:
    """Yield what rich shows: the verdict, a table and the reason.

    Args:
        found: The explanation.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    refused = found.refusal is not None
    yield Text(verdict(found), style="bold red" if refused else "bold green" if found.complete else "bold yellow")
    columns = columns_of(found)
    table = Table("#", box=box.SIMPLE, pad_edge=False)
    for column in columns:
        table.add_column(column.title, justify="right" if column.is_number else "left")
    for at in shown_steps(found):
        if at is None:
            table.add_row("...")
        else:
            step = found.steps[at]
            table.add_row(str(at), *(Text(column.text(step)) for column in columns), style=_style(step))
    if found.steps:
        yield table
    # Without wrapping, which would move the carets.
    yield from (
        Text(line, no_wrap=True, overflow="ellipsis") if line.startswith("    ") else Text(line)
        for line in reason_lines(found)
    )


def _style(step: Step) -> str:
    plain = "yellow" if (step.removed or 0.0) >= 0.5 else ""
    return {"illegal": "red", "": plain}.get(mark(step), "dim")
