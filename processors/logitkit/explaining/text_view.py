"""An explanation as plain text: a verdict, a table of tokens, and the reason of a refusal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from logitkit.explaining.findings import Findings, Step
from logitkit.explaining.reason import reason_lines, verdict
from logitkit.explaining.token_texts import quoted, width

__all__ = ["Column", "columns_of", "mark", "percent", "shown_steps", "text_lines"]


class Column(NamedTuple):
    """A column: its title, its text for a step, and whether that is a number."""

    title: str
    text: Callable[[Step], str]
    is_number: bool = False


def columns_of(found: Findings) -> list[Column]:
    """Return the columns that something is known about: the token always, the removed probability only after `trace`."""
    columns = [
        Column("token", lambda step: step.name or quoted(step.data)),
        Column("legal", lambda step: f"{step.legal:,}", is_number=True),
        Column("probability", lambda step: percent(step.probability), is_number=True),
        Column("removed", lambda step: percent(step.removed), is_number=True),
        Column("wanted", lambda step: _wanted(found, step)),
        Column("changed by", lambda step: _effects(found, step)),
        Column("", mark),
    ]
    return [column for column in columns if any(map(column.text, found.steps))]


def percent(share: float | None) -> str:
    """Return a probability as people read it.

    Example:
        >>> percent(0.5), percent(0.99996), percent(1e-9), percent(0.0)
        ('50%', '100%', '<0.01%', '0%')
    """
    if share is None:
        return ""
    return "<0.01%" if 0 < share < 1e-4 else f"{100 * share:.3g}%"


def mark(step: Step) -> str:
    """Return what to say about a token besides its numbers."""
    if step.refusal is not None:
        return "illegal"
    if step.after_refusal:
        return "after the illegal one"
    return "forced" if step.legal == 1 else ""


def _wanted(found: Findings, step: Step) -> str:
    if step.wanted is None or step.wanted == step.token_id:
        return ""
    data = found.token_bytes.get(step.wanted)
    return str(step.wanted) if data is None else quoted(data)


def _effects(found: Findings, step: Step) -> str:
    """Return what each processor of a chain did: how many tokens it banned, or how it changed the logit of the token."""
    said = [
        f"{effect.processor} bans {effect.banned:,}" if effect.banned else f"{effect.processor} {effect.shift:+.3g}"
        for effect in step.effects
        if effect.processor != found.processor and (effect.banned or effect.shift)
    ]
    return ", ".join(said)


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
