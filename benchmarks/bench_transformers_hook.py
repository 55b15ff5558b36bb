"""The overhead of the hook for transformers: finding the states, and one copy of the scores.

The processor does nothing. The scores are float32 on the CPU, 131,072 wide, with one thread. Each call has one more token, as
in `generate`. The same is measured with 8 columns, where the copy takes no time and only the search is left. Run `pytest
benchmarks/bench_transformers_hook.py --benchmark-json=FILE`, or `python -m benchmarks.bench_transformers_hook`.
"""

from __future__ import annotations

import sys

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import logitkit as lk
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables

# transformers is imported where it is used: run as a program, this file is read before pytest, which must see
# plugins first.
WIDTH = 131_072
NARROW = 8
WARMUP = 10
BEAMS = 4


def histories(rows: int, length: int, steps: int, beams: bool) -> list[Tensor]:
    """The ids of every step; with beams, each row goes on from a random row of its group."""
    generator = torch.Generator().manual_seed(0)
    now = torch.randint(WIDTH, (rows // BEAMS if beams else rows, length), generator=generator)
    now = now.repeat_interleave(BEAMS, 0) if beams else now
    first = torch.arange(rows) // BEAMS * BEAMS
    shown = [now]
    for _ in range(steps - 1):
        if beams:
            now = now[first + torch.randint(BEAMS, (rows,), generator=generator)]
        now = torch.cat([now, torch.randint(WIDTH, (rows, 1), generator=generator)], dim=1)
        shown.append(now)
    return shown


def check(shown: list[Tensor], scores: Tensor) -> None:
    """Assert that a hook finds the states of these histories, and leaves its scores alone."""
    from transformers import RepetitionPenaltyLogitsProcessor

    from logitkit_adapters.transformers import logits_processor

    ours, theirs = logits_processor(lk.RepetitionPenalty(2.0)), RepetitionPenaltyLogitsProcessor(2.0)
    before = scores.clone()
    for ids in shown:
        processed = ours(ids, scores)
    assert torch.equal(processed, theirs(shown[-1], before.clone()))
    assert torch.equal(scores, before)


@pytest.mark.parametrize("length", [100, 2000])
@pytest.mark.parametrize(("rows", "beams"), [(1, False), (32, False), (32, True)])
def test_hook(length: int, rows: int, beams: bool, benchmark: BenchmarkFixture, tables: Tables) -> None:
    from logitkit_adapters.transformers import logits_processor

    rounds = 400 if rows == 1 else 60
    shown = histories(rows, length, WARMUP + rounds, beams)
    scores = torch.randn(rows, WIDTH)
    check(shown[:5], scores)
    nothing = lk.Stateless(lambda logits, _: logits)

    hook, steps = logits_processor(nothing), iter(shown)
    found = medians({"hook": lambda: hook(next(steps), scores), "clone": scores.clone}, rounds=rounds, warmup=WARMUP)
    # By itself: a copy of 16 MB just before would leave nothing in the caches.
    search, same_steps, few = logits_processor(nothing), iter(shown), scores[:, :NARROW].clone()
    found |= medians({"search": lambda: search(next(same_steps), few)}, rounds=rounds, warmup=WARMUP)
    hook, again = logits_processor(nothing), iter(shown)
    benchmark.pedantic(lambda: hook(next(again), scores), rounds=50, warmup_rounds=WARMUP)

    hook_us, clone_us, search_us = (found[name] * 1e6 for name in ("hook", "clone", "search"))
    allowed = 40 + 0.8e-3 * rows * length
    benchmark.extra_info.update(hook_us=hook_us, clone_us=clone_us, search_us=search_us)
    table = tables.table(
        "The hook around a processor that does nothing, us a step (medians)",
        *(
            "rows x history",
            "hook",
            "scores.clone()",
            "hook - clone",
            "hook, 8 columns",
            "40 us + 0.8 ns a token",
        ),
    )
    name = f"{rows} x {length}{', beams' * beams}"
    table.add(name, hook_us, clone_us, hook_us - clone_us, search_us, allowed)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
