"""The cost of adapters: a step compared with the bare core on torch, and tokens per second of engines with and without `Regex`.

The cost of a step is the time of the engine's whole call minus the time of the core's `advance` and `process_logits` on the
same memory, or on a copy if the engine forces one. Both are timed in turns in one run. Logits are float32 on the CPU, with
131,072 columns. As in engines, every step has one more token and newly written memory. malloc keeps its pages, so that no copy
pays for new ones. A run with 8 columns shows the part that does not depend on the width.

Tokens per second are measured with the shipped demo model, which has a vocabulary of 1,280 tokens, and compared with those of
the peers' hooks. All times are CPU time of one thread. Run `pytest benchmarks/bench_adapters.py --benchmark-json=FILE`, or
`python -m benchmarks.bench_adapters`; `adapter_report` publishes the same.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture

import logitkit as lk
from benchmarks.adapter_calls import ADAPTERS, Adapter, Core, Floats, Integers
from benchmarks.allocator import keep_pages
from benchmarks.engine_hooks import EngineRun, LlamaCppRun, Make, MlxLmRun, TransformersRun
from benchmarks.side_by_side import medians
from benchmarks.tables import Tables
from logitkit.vocabulary import Vocabulary
from tests import vocabularies

WIDTH = 131_072
NARROW = 8
WARMUP = 10
SPARE = 50
PATTERN = "[a-z ]*"
RECORDS = r'(?:\{"name": "[A-Z][a-z]{2,9}", "age": [1-9][0-9], "active": (?:true|false)\}\n){4}'
LIMIT = 200
GENERATIONS = 15
RUNS: list[tuple[type[EngineRun], int]] = [(TransformersRun, 1), (TransformersRun, 32), (LlamaCppRun, 1), (MlxLmRun, 1)]


def both() -> dict[str, lk.Processor[Any]]:
    """A processor that does nothing, and one that masks."""
    vocabulary: Vocabulary = vocabularies.tekken()
    assert vocabulary.size == WIDTH
    return {"nothing": lk.Stateless(lambda logits, _: logits), "Regex": lk.Regex(PATTERN, vocabulary)}


@pytest.fixture(scope="module")
def processors() -> dict[str, lk.Processor[Any]]:
    return both()


def history(rows: int, length: int, steps: int, columns: int) -> Integers:
    """The ids of all steps: random ones, and then a letter after the other."""
    letter = vocabularies.tekken().tokens.index(b"a") if columns == WIDTH else 0
    ids = np.random.default_rng(0).integers(columns, size=(rows, length + steps))
    ids[:, length:] = letter
    return ids


def random_logits(rows: int, columns: int) -> Floats:
    return np.random.default_rng(1).standard_normal((rows, columns), np.float32)


def check(adapter: Adapter, rows: int, columns: int, processor: lk.Processor[Any]) -> None:
    """Assert that a call gives what the core alone gives, after each of a few steps."""
    whole = history(rows, 20, 4, columns)
    shown = [whole[:, : 20 + step].copy() for step in range(4)]
    chained = lk.chain(processor, lk.RepetitionPenalty(1.5)) if columns == WIDTH else lk.RepetitionPenalty(1.5)
    core, hook = Core(chained, shown[0], columns), adapter.hook(chained, shown[0], columns)
    for ids in shown:
        logits = random_logits(rows, columns)
        processed = adapter.values(hook(adapter.ids(ids), adapter.logits(logits.copy())))
        assert np.array_equal(processed, core.after(ids, logits))


def measured(
    adapter: Adapter, rows: int, length: int, columns: int, processor: lk.Processor[Any]
) -> tuple[dict[str, float], Callable[[], object]]:
    """Return the medians of the call and of the bare step, in us, and the call for another turn."""
    keep_pages()
    rounds, calls = (200, 3) if rows == 1 else (60, 1)
    ids = history(rows, length, (calls + 1) * (WARMUP + rounds) + SPARE, columns)
    logits = adapter.logits(random_logits(rows, columns))
    hook, bare = (make(processor, ids[:, :length], columns) for make in (adapter.hook, adapter.bare))
    tokens, tensor = torch.from_numpy(ids[:, length].copy()), adapter.tensor(logits)
    said, shown = length, adapter.ids(ids[:, :length].copy())

    def write() -> None:
        # Engines write the ids of a step right before it.
        nonlocal shown
        shown = adapter.ids(ids[:, :said].copy())

    def call() -> None:
        nonlocal said
        hook(shown, logits)
        said += 1

    def call_again() -> None:
        write()
        call()

    functions = {"call": call, "bare": lambda: bare(tokens, tensor), "clock": lambda: None}
    found = medians(functions, rounds=rounds, warmup=WARMUP, calls=calls, clock=time.thread_time, before=write)
    clock = found.pop("clock")
    return {name: (took - clock) * 1e6 for name, took in found.items()}, call_again


def check_text(run: EngineRun, make: Make) -> int:
    """Assert that the text of every row, of two generations, is in the language; return how many tokens it has, with EOS."""
    for _ in range(2):
        rows = run.generate(make(), LIMIT)
        assert all(row == rows[0] for row in rows)
        assert len(rows) == run.rows
        assert rows[0][-1] in run.vocabulary.eos_ids
        assert re.fullmatch(RECORDS, run.vocabulary.decode(rows[0]).decode())
    return len(rows[0])


@pytest.mark.parametrize("length", [100, 2000])
@pytest.mark.parametrize("kind", ["nothing", "Regex"])
@pytest.mark.parametrize(
    ("adapter", "rows"), [(a, n) for a in ADAPTERS for n in a.rows], ids=lambda v: getattr(v, "name", v)
)
def test_step(
    adapter: Adapter,
    rows: int,
    kind: str,
    length: int,
    processors: dict[str, lk.Processor[Any]],
    benchmark: BenchmarkFixture,
    tables: Tables,
) -> None:
    processor = processors[kind]
    check(adapter, rows, WIDTH, processor)
    found, call = measured(adapter, rows, length, WIDTH, processor)
    benchmark.pedantic(call, rounds=20, warmup_rounds=WARMUP)
    budget = adapter.budget(rows, length)
    values = [found["call"], found["bare"], found["call"] - found["bare"]]
    columns = ["rows x history", "call", "bare core and forced copy", "the adapter adds", "budget"]
    if kind == "nothing":
        narrow, _ = measured(adapter, rows, length, NARROW, processor)
        values.append(narrow["call"] - narrow["bare"])
        columns.insert(4, "with 8 columns")
    benchmark.extra_info.update(dict(zip(columns[1:], [*values, budget], strict=True)))
    title = (
        f"A step of each adapter around {'a processor that does nothing' if kind == 'nothing' else kind}, us (medians)"
    )
    tables.table(title, *columns).add(f"{adapter.name}, {rows} x {length}", *values, budget)


def speeds(run: EngineRun, generations: int = GENERATIONS) -> tuple[int, dict[str, float], dict[str, str]]:
    """Return the tokens of a row, what a generation takes with each hook, in seconds, and why hooks do not run here."""
    makers, broken, steps = {}, {}, 0
    for name, compiled in run.hooks().items():
        try:
            makers[name] = compiled()
            steps = check_text(run, makers[name])
        except (RuntimeError, ImportError) as error:
            makers.pop(name, None)
            broken[name] = re.sub(
                r" \(/[^)]*\)", "", f"{type(error).__name__}: {error}"
            )  # without paths of this machine
    assert "logitkit" not in broken
    free = run.generate(None, steps)
    assert [len(row) for row in free] == [steps] * run.rows

    def generation(make: Make) -> Callable[[], object]:
        return lambda: run.generate(make(), LIMIT)

    functions: dict[str, Callable[[], object]] = {"without a hook": lambda: run.generate(None, steps)}
    functions |= {name: generation(make) for name, make in makers.items()}
    return steps, medians(functions, rounds=generations, warmup=2, clock=time.process_time), broken


@pytest.mark.filterwarnings("default")  # what the peers import warns
@pytest.mark.parametrize(("engine", "rows"), RUNS)
def test_tokens_per_second(engine: type[EngineRun], rows: int, benchmark: BenchmarkFixture, tables: Tables) -> None:
    run = engine(RECORDS, rows)
    steps, took, broken = speeds(run)
    make = run.ours()
    benchmark.pedantic(lambda: run.generate(make(), LIMIT), rounds=3)
    tokens = steps * rows
    bare, ours = took["without a hook"], took["logitkit"]
    benchmark.extra_info.update({"steps": steps, "not run": broken})
    title = f"{run.name}, {rows} row{'s' * (rows > 1)}, {steps} tokens each"
    if broken:
        title += f" (do not run here: {', '.join(broken)})"
    table = tables.table(
        title, "hook", "tokens per second", "of the bare engine", "it adds, us a step", "its time / logitkit's"
    )
    for name, total in took.items():
        benchmark.extra_info[name] = {"tokens_per_second": tokens / total, "over_logitkit": total / ours}
        table.add(name, tokens / total, bare / total, (total - bare) / steps * 1e6, total / ours)


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
