"""A row of nothing but pads has ended: sessions and generators write no token in it, and the others as without it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import logitkit as lk
from logitkit_adapters.sessions import Session, continuous
from tests.adapters.demo import vocabulary
from tests.sessions.engines import ENGINES, loaded

TEXTS = ["The price of the lamp is", "The meeting"]
LIMIT = 5


def encoding(*texts: str) -> dict[str, Any]:
    """The output of a tokenizer; a row of "" contains only padding."""
    tokenizer = loaded("transformers")[1]
    rows = [tokenizer(text).input_ids if text else [] for text in texts]
    width = max(6, *map(len, rows))
    return {
        "input_ids": [[0] * (width - len(row)) + row for row in rows],
        "attention_mask": [[0] * (width - len(row)) + [1] * len(row) for row in rows],
    }


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("processor", [None, lk.Regex(" [0-9]{2,9}", vocabulary())], ids=["free", "digits"])
def test_a_session_writes_nothing_there(engine: str, processor: Any) -> None:
    with Session(*loaded(engine), processor) as session:
        wanted = session.generate(TEXTS, max_new_tokens=LIMIT)
        found = session.generate(encoding(TEXTS[0], "", TEXTS[1]), max_new_tokens=LIMIT)
        alone = session.generate(encoding("", ""), max_new_tokens=LIMIT)
    assert found.token_ids == [wanted.token_ids[0], [], wanted.token_ids[1]]
    assert found.texts == [wanted.texts[0], "", wanted.texts[1]]
    assert (found.rows[1].positions_fed, found.rows[1].positions_saved, found.rows[1].prompt_tokens) == (0, 0, 0)
    assert (alone.token_ids, alone.positions_fed) == ([[], []], 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("processor", [None, lk.Regex(" [0-9]{2,9}", vocabulary())], ids=["free", "digits"])
@pytest.mark.parametrize("options", [{}, {"num_samples": 2, "seed": 3}, {"num_beams": 2}], ids=str)
def test_a_generator_writes_nothing_there(engine: str, processor: Any, options: dict[str, Any]) -> None:
    write = continuous(*loaded(engine), processor, **options)
    wanted = write(TEXTS, max_new_tokens=LIMIT)
    found = write(encoding(TEXTS[0], "", TEXTS[1]), max_new_tokens=LIMIT)
    samples = write.samples
    others = [*range(samples), *range(2 * samples, 3 * samples)]
    if "seed" not in options:  # what is drawn depends on the number of the row
        assert [found.rows[i] for i in others] == [*wanted.rows]
        torch.testing.assert_close(found.weights[[0, 2]], wanted.weights)
    assert found.weights.shape == (3, samples)
    assert [found.rows[i] for i in range(samples, 2 * samples)] == [()] * samples
    assert found.finished[samples : 2 * samples].all()
    assert found.weights[1].tolist() == [0.0] * samples
    # Whatever goes on from there leaves them alone too, until they have a text.
    later = write(found, max_new_tokens=2)
    assert [later.rows[i] for i in range(samples, 2 * samples)] == [()] * samples
    if "seed" not in options and "num_beams" not in options:
        assert [later.rows[i] for i in others] == [*write(wanted, max_new_tokens=2).rows]
    begun = write(later + " The", max_new_tokens=2)
    assert all(begun.rows)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_of_pads_alone(engine: str) -> None:
    write = continuous(*loaded(engine))
    found = write(encoding("", ""), max_new_tokens=LIMIT)
    assert (found.rows, found.finished.tolist()) == (((), ()), [True, True])
    assert write(found, max_new_tokens=LIMIT).rows == ((), ())
    fanned = write(encoding(""), max_new_tokens=LIMIT, num_samples=3)
    assert (fanned.rows, fanned.weights.shape) == (((), (), ()), (1, 3))
