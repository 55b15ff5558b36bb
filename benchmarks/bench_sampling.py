"""Processors that shape the distribution compared with those of transformers, in turns within one run.

Both get logits of 131,072 columns on the CPU, with one thread. As from models, a few logits are far above the others; "masked"
ones have half of the columns at -inf, as after a constraint. transformers' returns new scores. Ours is timed in place, as in
engines that let hooks overwrite their logits (the copy for the next call is not timed), and with a copy, which makes the two
comparable. Those that are not in transformers are timed alone; `Xtc` is timed with a draw that applies it.
Run `pytest benchmarks/bench_sampling.py --benchmark-json=FILE`, or `python -m benchmarks.bench_sampling`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch import Tensor

import logitkit as lk
from benchmarks.tables import Tables

COLUMNS = 131_072

CASES: dict[str, tuple[lk.Processor[Any], str | None, float]] = {
    "Temperature(0.7)": (lk.Temperature(0.7), "TemperatureLogitsWarper", 0.7),
    "TopK(50)": (lk.TopK(50), "TopKLogitsWarper", 50),
    "TopP(0.9)": (lk.TopP(0.9), "TopPLogitsWarper", 0.9),
    "MinP(0.05)": (lk.MinP(0.05), "MinPLogitsWarper", 0.05),
    "TypicalP(0.9)": (lk.TypicalP(0.9), "TypicalLogitsWarper", 0.9),
    "TopNSigma(1)": (lk.TopNSigma(1), None, 1),
    "TopA(0.1)": (lk.TopA(0.1), None, 0.1),
    "EpsilonCutoff(3e-4)": (lk.EpsilonCutoff(3e-4), "EpsilonLogitsWarper", 3e-4),
    "EtaCutoff(3e-3)": (lk.EtaCutoff(3e-3), "EtaLogitsWarper", 3e-3),
    "TopH(0.4)": (lk.TopH(0.4), "TopHLogitsWarper", 0.4),
    "PLess()": (lk.PLess(), None, 0),
    "TailFree(0.95)": (lk.TailFree(0.95), None, 0.95),
    "DynamicTemperature(0.5, 1.5)": (lk.DynamicTemperature(0.5, 1.5), None, 0.5),
    "QuadraticSmoothing(0.25)": (lk.QuadraticSmoothing(0.25), None, 0.25),
    "Xtc(1, 0.1)": (lk.Xtc(1, 0.1), None, 0.1),
}


def logits_of(rows: int, kind: str) -> Tensor:
    """Return logits that fall off as those of a model do: a few tokens have nearly all of the probability."""
    rng = torch.Generator().manual_seed(0)
    rank = torch.stack([torch.randperm(COLUMNS, generator=rng) for _ in range(rows)]).float()
    logits = 20 - 1.3 * (1 + rank).log() + torch.randn(rows, COLUMNS, generator=rng) * 0.5
    if kind == "masked":
        logits[torch.rand(rows, COLUMNS, generator=rng) < 0.5] = -torch.inf
    return logits.to(torch.bfloat16) if kind == "bfloat16" else logits


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["float32", "masked", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 32])
def test_sampling(rows: int, kind: str, name: str, benchmark: BenchmarkFixture, tables: Tables) -> None:
    # Imported here: run as a program, this file is read before pytest, which must see plugins first.
    import transformers

    processor, reference, argument = CASES[name]
    logits, ids = logits_of(rows, kind), torch.zeros(rows, 1, dtype=torch.int64)
    context = lk.Context.of([[]] * rows, COLUMNS)
    state = processor.init_state(context)
    theirs = None if reference is None else getattr(transformers, reference)(argument)

    def copied() -> Tensor:
        return processor.process_logits(state, logits.clone(), context)[1]

    # In 16 bits, transformers rounds probabilities, and leaves it to chance which of equal tokens stay.
    if theirs is not None and kind != "bfloat16":
        assert torch.equal(copied(), theirs(ids, logits))
    times: dict[str, list[float]] = {"theirs": [], "in place": [], "copied": []}
    for turn in range(3 + (40 if rows == 1 else 8)):
        took = {
            "theirs": 0.0 if theirs is None else timed(theirs, ids, logits),
            "in place": timed(processor.process_logits, state, logits.clone(), context),
            "copied": timed(copied),
        }
        for key in times if turn >= 3 else ():
            times[key].append(took[key])
    us = {key: median(took) * 1e6 for key, took in times.items()}
    benchmark.pedantic(copied, rounds=20 if rows == 1 else 5, warmup_rounds=2)
    benchmark.extra_info.update({f"{key}_us": value for key, value in us.items()})
    table = tables.table(
        f"Sampling, {COLUMNS:,} columns, us a step (medians; of no reference, 0)",
        *("processor, rows, logits", "transformers", "ours in place", "ours on a copy", "in place / theirs"),
        "on a copy / theirs",
    )
    if theirs is None:
        table.add(f"{name}, {rows}, {kind}", 0, us["in place"], us["copied"], 0, 0)
    else:
        ratios = [us[key] / us["theirs"] for key in ("in place", "copied")]
        table.add(f"{name}, {rows}, {kind}", us["theirs"], us["in place"], us["copied"], *ratios)


def timed(function: Callable[..., object], *arguments: object) -> float:
    begin = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
