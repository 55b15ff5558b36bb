"""Processors on a CUDA device: the same results as on the CPU, no host read, and what a step costs.

    python -m benchmarks.bench_cuda [--out FILE]

First every processor of the tests' registry runs on the device and on the CPU, on the same batches, in three dtypes, while torch
raises an error where the host reads a value of the device (`torch.cuda.set_sync_debug_mode`). Each runs several times, so that
its steps are captured as CUDA graphs and replayed. Then steps (advance and mask) are timed with the vocabulary Tekken (131,072
ids) and float32 logits, in turns, with a bare pass over the logits beside them. A step runs in four ways: as the methods of the
processor run it, which replay graphs; operation by operation; compiled as a whole by `torch.compile`; and captured as a whole in
one CUDA graph. Before that, transformers generates text with a hook on the device.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.circumstances import commit
from benchmarks.cuda_comparison import DEVICE, Difference, compared
from benchmarks.cuda_generation import SCHEMA, generated, without_graphs
from logitkit.runtime.step_graphs import CudaCapture, StepGraphs
from tests import vocabularies
from tests.batches import DTYPES
from tests.registry import ROWS

BATCHES = (1, 32, 256)
# Compiling takes about ten seconds, so one size of batch is enough.
COMPILED = 32
ROUNDS, CALLS = 7, 20

GRAMMAR = 'root ::= sum\nsum ::= term ("+" term)*\nterm ::= [0-9]+ | "(" sum ")"\n'


def subjects() -> dict[str, lk.Processor[Any]]:
    """Return what is timed, by name."""
    vocabulary = vocabularies.tekken()
    return {
        "Regex, any text": lk.Regex(r"\w+(?:\W+\w+)*", vocabulary),
        "Regex, a date": lk.Regex(r"\d{4}-\d{2}-\d{2}", vocabulary),
        "JsonSchema": lk.JsonSchema(SCHEMA, vocabulary),
        "Grammar": lk.Grammar(GRAMMAR, vocabulary),
        "StopStrings": lk.StopStrings(["\n\n", "</answer>", "Observation:"], vocabulary),
        "BannedStrings": lk.BannedStrings(["as an AI", "I cannot", "sorry"], vocabulary),
        "RepetitionPenalty": lk.RepetitionPenalty(1.1),
        "TopP": lk.TopP(0.9),
    }


class Running(NamedTuple):
    """Rows of a processor on the device, and a step of theirs.

    Args:
        state: The state.
        tokens: [B] int64: committed in each step.
        logits: [B, V]: masked in place.
        context: The context.
        step: The step.
    """

    state: Any
    tokens: Tensor
    logits: Tensor
    context: lk.Context
    step: Callable[..., tuple[Any, Tensor]]


def running(processor: lk.Processor[Any], rows: int) -> Running:
    """Begin some rows."""
    size = vocabularies.tekken().size
    context = lk.Context.of([[5, 6, 7]] * rows, vocabulary_size=size, device=DEVICE, max_length=256)
    logits = torch.randn(rows, size, generator=torch.Generator(DEVICE).manual_seed(0), device=DEVICE)

    def one_step(state: Any, tokens: Tensor, logits: Tensor, context: lk.Context) -> tuple[Any, Tensor]:
        return processor.process_logits(processor.advance(state, tokens), logits, context)

    # No token is committed, so that each step finds the same state.
    return Running(processor.init_state(context), torch.full((rows,), -1, device=DEVICE), logits, context, one_step)


def called(at: Running) -> Callable[[], object]:
    """Run a step as the methods of the processor do."""
    return lambda: at.step(at.state, at.tokens, at.logits, at.context)


def eager(at: Running) -> Callable[[], object]:
    """Run a step operation by operation."""

    def run_it() -> None:
        with without_graphs():
            at.step(at.state, at.tokens, at.logits, at.context)

    return run_it


def traced(at: Running) -> Callable[[], object]:
    """Run a step as torch compiled it."""
    torch.compiler.reset()
    made = torch.compile(at.step, fullgraph=True)
    made(at.state, at.tokens, at.logits, at.context)
    return lambda: made(at.state, at.tokens, at.logits, at.context)


def graphed(at: Running) -> Callable[[], object]:
    """Run a step as one CUDA graph."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            at.step(at.state, at.tokens, at.logits, at.context)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        at.step(at.state, at.tokens, at.logits, at.context)
    return graph.replay


def microseconds(functions: dict[str, Callable[[], object]]) -> dict[str, dict[str, float]]:
    """Time functions in turns: the host's time for a call, and the time until the device has done it, medians in us."""
    host: dict[str, list[float]] = {name: [] for name in functions}
    whole: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(ROUNDS + 1):
        for name, function in functions.items():
            function()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(CALLS):
                function()
            called = time.perf_counter()
            torch.cuda.synchronize()
            done = time.perf_counter()
            if turn:
                host[name].append((called - begin) / CALLS * 1e6)
                whole[name].append((done - begin) / CALLS * 1e6)
    return {
        name: {"host": statistics.median(host[name]), "whole": statistics.median(whole[name])} for name in functions
    }


def timed(rows: int, ways: dict[str, Callable[[Running], Callable[[], object]]]) -> dict[str, dict[str, float]]:
    """Time the steps of all subjects in batches of one size."""
    found: dict[str, dict[str, float]] = {}
    for name, processor in subjects().items():
        at = running(processor, rows)
        functions: dict[str, Callable[[], object]] = {"pass": lambda at=at: at.logits.add_(0)}  # type: ignore[misc]
        for way, made in ways.items():
            if way == "compiled" and rows != COMPILED:
                continue
            try:
                functions[way] = made(at)
            except RuntimeError as error:  # torch's compiler fails; the other ways are timed
                traceback.print_exc(limit=-3)
                print(f"{name}, {rows} rows, {way}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        functions["pass again"] = functions["pass"]
        found[name] = microseconds(functions)  # type: ignore[assignment]
        print(f"{rows} rows, {name}: {found[name]}", flush=True)
    return found


def main() -> None:
    """Compare, time, and write the results."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--out", type=Path)
    options.add_argument("--ways", default="called,eager,compiled,graph", help="how steps run, by commas")
    options.add_argument("--no-comparison", action="store_true", help="only time")
    given = options.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("there is no CUDA device; run this on a machine that has one")
    differences: list[Difference] = []
    captured = 0
    if not given.no_comparison:
        with mock.patch.object(CudaCapture, "capture", autospec=True, side_effect=CudaCapture.capture) as capture:
            for row in ROWS:
                for dtype in DTYPES:
                    differences += compared(row, dtype)
        captured = capture.call_count
        print(
            f"{len(ROWS)} rows in {len(DTYPES)} dtypes, {captured} graphs, {len(differences)} differences", flush=True
        )
        print("\n".join(f"  {one.row}: {one.what}" for one in differences), flush=True)
    generate = generated()
    print(generate, flush=True)
    # The threads of torch's compiler neither sample nor synchronize.
    StepGraphs.enabled = True
    known: dict[str, Callable[[Running], Callable[[], object]]] = {
        "called": called,
        "eager": eager,
        "compiled": traced,
        "graph": graphed,
    }
    ways = {way: known[way] for way in given.ways.split(",") if way}
    found = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "commit": commit(),
        "rows of the registry": len(ROWS),
        "graphs": captured,
        "generate": generate,
        "differences": [one._asdict() for one in differences],
        "steps": {rows: timed(rows, ways) for rows in BATCHES} if ways else {},
    }
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n")
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
