"""The kernel of constraints gives what the tensor operations give, bit for bit."""

from __future__ import annotations

import random
from collections import Counter

import pytest
import torch

from logitkit.runtime import Constraint
from tests import continue_saved
from tests.batches import run, same_bits, same_state, tensor_path
from tests.kernels.interpreter import kernels
from tests.kernels.walks import DTYPES, Walk, batches
from tests.registry import ROWS, Row, vocabulary

CPU = torch.device("cpu")
CONSTRAINTS = [row for row in ROWS if row.kind in ("automaton", "pushdown") and isinstance(row.processor, Constraint)]


@pytest.mark.parametrize("row", CONSTRAINTS, ids=str)
def test_each_constraint_of_the_registry(row: Row) -> None:
    """All tokens in one launch; then the mask at the start and at the end, and the last token alone."""
    dtype = DTYPES[CONSTRAINTS.index(row) % 3]
    batch = continue_saved.batch(row, 0, dtype)
    with tensor_path():
        by_tensors = run(row.processor, batch)
        before = row.processor.advance(row.processor.init_state(batch.context()), batch.tokens[:, :-1])
    with kernels() as started:
        state = row.processor.init_state(batch.context())
        at_once = row.processor.advance(state, batch.tokens)
        last = row.processor.advance(before, batch.tokens[:, -1])
        masked = [
            row.processor.process_logits(at, batch.logits[step].clone(), batch.context())[1]
            for at, step in ((state, 0), (at_once, -1))
        ]
    assert started == {"constraint_kernel": 4}
    assert same_state(at_once, by_tensors.state)
    assert same_state(last, by_tensors.state)
    assert same_bits(masked[0], by_tensors.logits[0])
    assert same_bits(masked[1], by_tensors.logits[-1])


@pytest.mark.parametrize("name", batches(vocabulary()))
def test_random_walks(name: str) -> None:
    seen: Counter[str] = Counter()
    for seed in range(5):
        chance = random.Random(seed)
        with kernels(strip=chance.choice((16, 32)), strips=chance.choice((1, 2)), programs=chance.choice((1, 6, 24))):
            Walk.start(batches(vocabulary())[name], chance, 4, CPU).go(chance, 5, 8, seen)
    wanted = {
        "dead",
        "neutral",
        "emptied",
        *(("pushed", "popped", "limited") if name in ("nesting", "pushdown") else ()),
    }
    assert wanted <= {fact for fact, count in seen.items() if count}, seen
