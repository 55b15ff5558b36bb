"""`RepetitionPenalty` compared with the one of transformers, in turns within one run.

Both get 2,000 tokens of context and logits of 131,072 columns on the CPU, with one thread. transformers' returns new scores.
Ours is timed in place, as in engines that let hooks overwrite their logits, and with a copy, which makes the two comparable.
Both include the `advance` by one token, which transformers does not need. Run `pytest benchmarks/bench_penalties.py
--benchmark-json=FILE`, or `python -m benchmarks.bench_penalties`.
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

COLUMNS = 131_072
CONTEXT = 2_000
PENALTY = 1.1

# In place, a penalty is applied again and again to the same logits, which must stay ordinary numbers.
MILD = 1.000001


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=lambda d: str(d)[6:])
@pytest.mark.parametrize("rows", [1, 32])
def test_repetition_penalty(rows: int, dtype: torch.dtype, benchmark: BenchmarkFixture, tables: Tables) -> None:
    # Imported here: run as a program, this file is read before pytest, which must see plugins first.
    from transformers import RepetitionPenaltyLogitsProcessor

    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(COLUMNS, (rows, CONTEXT), generator=generator)
    logits = torch.randn(rows, COLUMNS, generator=generator).to(dtype)
    context = lk.Context.of(ids[:, :-1].tolist(), COLUMNS)
    theirs, ours, mild = (
        RepetitionPenaltyLogitsProcessor(PENALTY),
        lk.RepetitionPenalty(PENALTY),
        lk.RepetitionPenalty(MILD),
    )
    before, mildly = ours.init_state(context), mild.init_state(context)
    token, kept = ids[:, -1].contiguous(), logits.clone()

    def copied() -> Tensor:
        return ours.process_logits(ours.advance(before, token), logits.clone(), context)[1]

    def in_place() -> Tensor:
        return mild.process_logits(mild.advance(mildly, token), kept, context)[1]

    assert torch.equal(copied(), theirs(ids, logits))
    found = medians(
        {
            "theirs": lambda: theirs(ids, logits),
            "copied": copied,
            "in place": in_place,
            "clone": logits.clone,
        },
        rounds=300 if rows == 1 else 30,
    )
    benchmark.pedantic(copied, rounds=50 if rows == 1 else 10, warmup_rounds=3)
    us = {name: seconds * 1e6 for name, seconds in found.items()}
    ratios = {name: us[name] / us["theirs"] for name in ("in place", "copied")}
    benchmark.extra_info.update({f"{name}_us": value for name, value in us.items()})
    benchmark.extra_info.update({f"{name} / theirs": value for name, value in ratios.items()})
    table = tables.table(
        f"RepetitionPenalty, {CONTEXT:,} tokens, {COLUMNS:,} columns, us a step (medians)",
        *(
            "rows, dtype",
            "transformers",
            "ours in place",
            "ours on a copy",
            "a copy alone",
            "in place / theirs",
        ),
        "on a copy / theirs",
    )
    table.add(
        f"{rows}, {str(dtype)[6:]}",
        *(us[name] for name in ("theirs", "in place", "copied", "clone")),
        *ratios.values(),
    )


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
