"""One step of the history resolver with a processor that does nothing, compared with one comparison of all ids.

A step may cost 40 us plus 0.8 ns for each token of each row. Part of that is comparing all ids once with numpy, which an exact
result requires; it is also timed alone, on the same histories in the same run. Every step gets a new tensor, on the CPU with
one thread. Run `pytest benchmarks/bench_history.py --benchmark-json=FILE`, or `python -m benchmarks.bench_history`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables
from logitkit.tracking import Tracker
from tests.core.ledger import WIDTH, Ledger, rows_of

STEPS = 60
WARMUP = 5
IDS = 1000

Order = Callable[[int, torch.Generator], Tensor]

KINDS: dict[str, Order] = {
    "same rows": lambda rows, _: torch.arange(rows),
    "beams": lambda rows, draws: torch.randint(rows, (rows,), generator=draws),
    "rows change places": lambda rows, draws: torch.randperm(rows, generator=draws),
}


def histories(rows: int, length: int, order: Order, steps: int) -> list[Tensor]:
    """The ids of every step: a prompt, and then each row goes on from the row that `order` says."""
    draws = torch.Generator().manual_seed(0)
    shown = [torch.randint(IDS, (1, length), generator=draws).repeat(rows, 1)]
    for step in range(steps):
        before = shown[-1] if step == 0 else shown[-1][order(rows, draws)]
        # Rows differ from the first step on, as beams do.
        shown.append(torch.cat((before, torch.randperm(IDS, generator=draws)[:rows, None]), 1))
    return shown


def check(shown: list[Tensor]) -> None:
    """Assert that the states are those of a replay; of long prompts the end stands for the whole."""
    begin = max(0, shown[0].shape[1] - WIDTH)
    resolver = Tracker(Ledger())
    for ids in shown:
        state, _ = resolver.resolve(ids[:, begin:], vocabulary_size=IDS)
    width = shown[0].shape[1]
    assert rows_of(state) == [(row[begin:width], row[width:]) for row in shown[-1].tolist()]


@pytest.mark.parametrize("length", [100, 2000, 8000])
@pytest.mark.parametrize(("kind", "rows"), [("same rows", 1), *((kind, rows) for kind in KINDS for rows in (4, 32))])
def test_step(kind: str, rows: int, length: int, benchmark: BenchmarkFixture, tables: Tables) -> None:
    shown = histories(rows, length, KINDS[kind], STEPS)
    check(shown[:20])
    resolver = Tracker(lk.Stateless(lambda logits, _: logits))
    compared: list[float] = []
    clock = time.perf_counter
    for before, after in pairwise(shown):
        mine, given = before.numpy(), after.numpy()
        begin = clock()
        (mine == given[:, :-1]).all()
        compared.append(clock() - begin)
    steps = iter(shown)
    found = medians(
        {"step": lambda: resolver.resolve(next(steps), vocabulary_size=IDS)},
        rounds=STEPS - WARMUP,
        warmup=WARMUP,
    )
    resolver.new_generation()
    steps = iter(shown)
    benchmark.pedantic(
        lambda: resolver.resolve(next(steps), vocabulary_size=IDS),
        rounds=STEPS - WARMUP,
        warmup_rounds=WARMUP,
    )
    step_us, compare_us = found["step"] * 1e6, sorted(compared)[len(compared) // 2] * 1e6
    allowed = 40 + 0.8e-3 * rows * length
    benchmark.extra_info.update(compare_us=compare_us, allowed_us=allowed)
    tables.table(
        "A step of the history resolver, us (medians)",
        *("rows", "row count", "history", "step", "one comparison", "40 us + 0.8 ns a token"),
    ).add(kind, rows, length, step_us, compare_us, allowed)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
