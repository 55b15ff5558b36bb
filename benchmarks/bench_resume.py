"""The delay of an engine's step when a request resumes with 8,000 tokens of output, for each row of the registry.

An engine that runs out of cache preempts a request, and later resumes it: states are computed again from the prompt and the
output. The processor allows the output, which stops early if its language does. The vocabulary is the small one of the
registry, extended to 131,072 ids. Times are CPU time of one thread, medians of several resumptions. The automata have seen the
text before, as in an engine. `scripts/bench resume` writes `benchmarks/results/resume.json` and the table of docs/vllm.md. It
fails if a request takes longer than `LONGEST`.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

import logitkit as lk
from benchmarks.circumstances import commit, processor
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables
from logitkit.batching.batch import BatchedRequests
from logitkit.batching.entering import NewRequest
from logitkit.batching.steps import steps_of
from logitkit.errors import ConfigurationError
from tests.registry import EOS, ONE_PASS, TOKENS, Row, vocabulary

OUTPUT = 8_000
PROMPT = [3, 4, 5] * 40
COLUMNS = 131_072
ROUNDS = 15

# Seconds.
LONGEST = 0.020

RESULTS = Path(__file__).parent / "results" / "resume.json"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks-vllm.md"
BEGIN, END = "<!-- resume -->", "<!-- end of resume -->"
SHOWN = 6

ALL = "a processor of every kind that remembers"
Found = dict[str, dict[str, float]]

EVERYTHING: dict[str, Any] = {
    "regex": r"[0-9a-z ,.\n-]*",
    "repetition_penalty": 1.1,
    "frequency_penalty": 0.1,
    "presence_penalty": 0.1,
    "no_repeat_ngram": 12,
    "dry": 0.8,
    "banned_strings": ["zzzzzzzz"],
    "stop_strings": ["yyyyyyyy"],
    "thinking_budget": {"max_tokens": 9000, "end": "xxxxxxxx"},
    "min_new_tokens": 9000,
    "logit_bias": {"5": 1.0},
    "temperature": 0.7,
    "top_k": 50,
    "top_p": 0.9,
    "xtc": 0.5,
}


@pytest.fixture(scope="module")
def found() -> Iterator[Found]:
    """Collect the measurements, and publish them if none is missing."""
    load = os.getloadavg()[0]
    rows: Found = {}
    yield rows
    if len(rows) > sum(has_steps(row) for row in ONE_PASS):
        loads = f"load {load:.1f} at the beginning and {os.getloadavg()[0]:.1f} at the end"
        conditions = f"{processor()}, time of one thread; medians of {ROUNDS}; {loads}; commit {commit()}"
        publish({"conditions": conditions, "rows": rows})


def publish(result: dict[str, Any]) -> None:
    """Write the results, and the table of the page."""
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    rows = result["rows"]
    longest = sorted((name for name in rows if name != ALL), key=lambda name: -rows[name]["seconds"])[:SHOWN]
    lines = ["| configuration | tokens of output | ms |", "|---|---:|---:|"]
    lines += [f"| {name} | {rows[name]['tokens']:,} | {rows[name]['seconds'] * 1e3:.1f} |" for name in (ALL, *longest)]
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    lines += ["", f"({len(rows)} were measured; these take longest. {result['conditions']}.)", ""]
    body = "\n".join([BEGIN, "", *lines, END])
    PAGE.write_text(before + body + rest.split(END)[1], "utf-8")


def has_steps(row: Row) -> bool:
    try:
        return bool(steps_of(row.processor))
    except ConfigurationError:
        return False


@cache
def wide() -> lk.Vocabulary:
    """The small vocabulary, followed by many tokens of several letters."""
    draws = random.Random(0)
    more = [
        bytes(draws.choices(b"abcdefghijklmnopqrstuvwxyz 0123456789", k=draws.randint(2, 9))) for _ in range(COLUMNS)
    ]
    small = vocabulary()
    return lk.Vocabulary(
        [*TOKENS, *more[: COLUMNS - len(TOKENS)]], eos_ids=[EOS], pad_id=small.pad_id, special=small.special
    )


def output(row: Row) -> list[int]:
    """Return tokens that the processor allows, drawn at random, up to the end of its language or `OUTPUT` of them."""
    draws = random.Random(row.name)
    batch = BatchedRequests("cpu")
    batch.arrange([NewRequest(row.processor, PROMPT)])
    columns = vocabulary().size
    said: list[int] = []
    while len(said) < OUTPUT:
        allowed = (batch.process_logits(torch.zeros(1, columns))[0] > -torch.inf).numpy().nonzero()[0].tolist()
        going_on = [token for token in allowed if token > 2 and token < len(TOKENS)]
        if not going_on:
            break
        said.append(draws.choice(going_on))
        batch.advance(torch.tensor(said[-1:]))
    return said


@pytest.mark.parametrize("row", [row for row in ONE_PASS if has_steps(row)], ids=str)
def test_resume(row: Row, benchmark: BenchmarkFixture, tables: Tables, found: Found) -> None:
    found[row.name] = measure(row.name, row.make(wide()), output(row), benchmark, tables)


def test_resume_all_at_once(benchmark: BenchmarkFixture, tables: Tables, found: Found) -> None:
    """A request for a processor of every kind whose state depends on the output, each with its longest memory."""
    everything = lk.from_config(EVERYTHING, wide())
    draws = random.Random(0)
    said = [draws.choice(range(3, 40)) for _ in range(OUTPUT)]
    found[ALL] = measure(ALL, everything, said, benchmark, tables)


def measure(
    name: str, asked: lk.Processor[Any], said: list[int], benchmark: BenchmarkFixture, tables: Tables
) -> dict[str, float]:
    def resume() -> None:
        BatchedRequests("cpu").arrange([NewRequest(asked, PROMPT, said)])

    took = medians({"resume": resume}, rounds=ROUNDS, warmup=2, clock=time.thread_time)["resume"]
    table = tables.table("Delay of a step by a request that resumes, ms", "row", "tokens of output", "ms")
    table.add(name, len(said), took * 1e3)
    benchmark.extra_info.update(tokens=len(said), seconds=took)
    benchmark.pedantic(resume, rounds=1)
    assert took < LONGEST
    return {"tokens": len(said), "seconds": took}
