"""Repetition penalties."""

from __future__ import annotations

import logitkit as lk
from tests.rows.row import TEXT, Row


def _windowed(window: int, penalty: float) -> Row:
    name = f"RepetitionPenalty of {window}"
    return Row(name, "repetition", lambda v: lk.RepetitionPenalty(penalty, window=window), TEXT, masks=False)


ROWS: tuple[Row, ...] = (
    Row("RepetitionPenalty", "repetition", lambda v: lk.RepetitionPenalty(1.3), TEXT, masks=False),
    Row(
        "RepetitionPenalty of output",
        "repetition",
        lambda v: lk.RepetitionPenalty(3.7, include_prompt=False),
        TEXT,
        masks=False,
    ),
    _windowed(1, 1.5),
    _windowed(4, 0.6),
    _windowed(16, 2.0),
)
