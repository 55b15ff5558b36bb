"""Registered processors in a batch: rows with equal configurations gathered into one call, against one call for each row.

The processor is `EveryNth` of the tests, which counts tokens in its state and reads its own parameters. Both ways run a step of
32 rows, `advance` and `process_logits`, on float32 logits of 32,768 columns on the CPU, in the time of one thread. They take
turns within one run. One call for each row is what a batch takes if all configurations differ. `scripts/bench registered` prints
the table.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables
from logitkit.batching import BatchedRequests, NewRequest
from tests.own import EveryNth
from tests.registry import EOS, vocabulary

ROWS = 32
COLUMNS = 32_768
TOKENS = torch.full((ROWS,), 9)


def batch_of(ns: Sequence[int]) -> BatchedRequests:
    """Return a batch with a row for each `n`; rows with the same `n` have equal configurations."""
    made = {n: lk.from_config({"every_nth": {"n": n, "token": 7}}, vocabulary()) for n in ns}
    batch = BatchedRequests("cpu", [EOS], COLUMNS)
    batch.arrange([NewRequest(made[n], [3, 4]) for n in ns])
    return batch


def step(batch: BatchedRequests, logits: Tensor) -> Tensor:
    batch.advance(TOKENS)
    return batch.process_logits(logits)


@pytest.mark.parametrize("configurations", [1, 4, 16])
def test_gathered_rows(configurations: int, benchmark: BenchmarkFixture, tables: Tables) -> None:
    lk.register("every_nth", EveryNth)
    # No row is due within the steps that are timed, so that all steps do the same work.
    gathered = batch_of([50 + row % configurations for row in range(ROWS)])
    one_by_one = batch_of([50 + row for row in range(ROWS)])
    logits = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    assert torch.equal(step(gathered, logits.clone()), logits)
    assert torch.equal(step(one_by_one, logits.clone()), logits)
    functions = {
        "gathered": lambda: step(gathered, logits),
        "one by one": lambda: step(one_by_one, logits),
    }
    found = medians(functions, rounds=40, warmup=3, clock=time.thread_time)
    benchmark.pedantic(functions["gathered"], rounds=1)
    table = tables.table(
        "A registered processor, 32 rows: us a step", "configurations", "gathered", "one by one", "ratio"
    )
    table.add(str(configurations), *(found[name] * 1e6 for name in functions), found["one by one"] / found["gathered"])
