"""Tables of results that are printed after all benchmarks, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass
class Table:
    """Rows of results of one kind.

    Args:
        title: The measured quantity, with units.
        columns: Names of the columns; the first holds names, the others hold numbers.
        rows: The results so far.
    """

    title: str
    columns: Sequence[str]
    rows: list[tuple[str, *tuple[float, ...]]] = field(default_factory=list)

    def add(self, name: str, *values: float) -> None:
        """Add a row."""
        self.rows.append((name, *values))

    def lines(self) -> Iterator[str]:
        """Write the table, its medians and its worst values."""
        yield f"### {self.title}"
        yield ""
        yield "| " + " | ".join(self.columns) + " |"
        yield "|---|" + "---:|" * (len(self.columns) - 1)
        for name, *values in self.rows:
            yield _line(name, values)
        if len(self.rows) > 5:
            columns = list(zip(*(values for _, *values in self.rows), strict=True))
            yield _line("**median**", [statistics.median(c) for c in columns])
            yield _line("**worst**", [max(c) for c in columns])
        yield ""


class Tables:
    """The tables of one run, by title."""

    def __init__(self) -> None:
        self.by_title: dict[str, Table] = {}

    def table(self, title: str, *columns: str) -> Table:
        """Return the table of a title, made on first use."""
        return self.by_title.setdefault(title, Table(title, columns))


def _line(name: str, values: Sequence[float]) -> str:
    return f"| {name} | " + " | ".join(f"{v:,.0f}" if abs(v) >= 100 else f"{v:.3g}" for v in values) + " |"
