"""Penalties change many rows at once as they change each row alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit.errors import VocabularyError
from logitkit.penalties.repetition import MANY_ROWS

COLUMNS = 40
PENALTIES: dict[str, list[lk.Processor[Any]]] = {
    "above 1": [lk.RepetitionPenalty(1.3), lk.RepetitionPenalty(2.0), lk.RepetitionPenalty(1.0)],
    "below 1": [lk.RepetitionPenalty(0.7), lk.RepetitionPenalty(0.9)],
    "both": [lk.RepetitionPenalty(0.7), lk.RepetitionPenalty(1.3), lk.RepetitionPenalty(1.5, window=3)],
    "frequency": [
        lk.FrequencyPenalty(0.5, include_prompt=True),
        lk.FrequencyPenalty(-1.0),
        lk.FrequencyPenalty(2.0, window=2),
    ],
    "presence": [lk.PresencePenalty(0.5, include_prompt=True), lk.PresencePenalty(0.0)],
}


def rows_of(kinds: list[lk.Processor[Any]], count: int) -> list[tuple[lk.Processor[Any], Any, lk.Context]]:
    """Return rows with texts of different lengths, some of them empty, under different penalties."""
    draw = torch.Generator().manual_seed(count)
    rows = []
    for row in range(count):
        prompt = torch.randint(COLUMNS, (row % 5,), generator=draw).tolist()
        context = lk.Context.of([prompt], vocabulary_size=COLUMNS)
        processor = kinds[row % len(kinds)]
        new = torch.randint(COLUMNS, (1, row % 4), generator=draw)
        rows.append((processor, processor.advance(processor.init_state(context), new), context))
    return rows


@pytest.mark.parametrize("contiguous", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", PENALTIES)
def test_rows_together_are_changed_as_alone(name: str, dtype: torch.dtype, contiguous: bool) -> None:
    rows = rows_of(PENALTIES[name], 4 * MANY_ROWS)
    wide = torch.randn(len(rows), COLUMNS + 3, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).to(
        dtype
    )
    wide[::3, 5], wide[1::3, 6] = torch.inf, -torch.inf
    beyond, logits = wide[:, COLUMNS:].clone(), wide[:, :COLUMNS]
    logits = logits.contiguous() if contiguous else logits
    alone = [p.process_logits(s, logits[i : i + 1].clone(), c)[1] for i, (p, s, c) in enumerate(rows)]
    state = lk.concatenate([s for _, s, _ in rows])
    context = lk.concatenate_context([c for _, _, c in rows])
    together = rows[0][0].process_logits(state, logits, context)[1]
    assert torch.equal(together, torch.cat(alone))
    assert torch.equal(wide[:, COLUMNS:], beyond)


def test_an_id_beyond_the_columns_is_refused_with_its_row() -> None:
    penalty = lk.RepetitionPenalty(1.3)
    context = lk.Context.of([[1, 2]] * 7 + [[1, 50]], vocabulary_size=60)
    state = penalty.init_state(context)
    with pytest.raises(VocabularyError, match="row 7 has the token 50, but the logits have 40 columns"):
        penalty.process_logits(state, torch.zeros(8, COLUMNS), context)
