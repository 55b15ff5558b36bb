"""The table of an explanation: one row per token, with the columns that something is known about."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from logitkit.explaining.findings import Findings, Step
from logitkit.explaining.visible_text import quoted

__all__ = ["Column", "columns_of", "mark", "percent"]


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
