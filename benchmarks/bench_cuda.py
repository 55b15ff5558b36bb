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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.circumstances import commit
from logitkit.protocol import leaves
from logitkit.runtime.step_graphs import CudaCapture, StepGraphs
from tests import continue_saved, vocabularies
from tests.batches import COLUMNS, DTYPES, MAX_LENGTH, Batch, Result, run, step
from tests.registry import ROWS, Row

DEVICE = torch.device("cuda")
BATCHES = (1, 32, 256)
# Compiling takes about ten seconds, so one size of batch is enough.
COMPILED = 32
ROUNDS, CALLS = 7, 20
# How often a batch of the tests runs: the last time, its steps are replayed.
REPEATS = 4

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
        "place": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}},
    },
    "required": ["name", "tags"],
}
GRAMMAR = 'root ::= sum\nsum ::= term ("+" term)*\nterm ::= [0-9]+ | "(" sum ")"\n'


class Difference(NamedTuple):
    """How far a row of the registry is from the CPU's results.

    Args:
        row: Its name, and the dtype.
        what: An error, or what differs.
    """

    row: str
    what: str


def on_device(batch: Batch, processor: lk.Processor[Any]) -> tuple[Any, list[Tensor]]:
    """Run a batch on the device, whose tables are there; no step reads a value on the host."""
    context = lk.Context.of(batch.prompts, COLUMNS, device=DEVICE, max_length=MAX_LENGTH)
    context = replace(context, stream_ids=None if batch.streams is None else torch.tensor(batch.streams, device=DEVICE))
    tokens, logits = batch.tokens.to(DEVICE), batch.logits.to(DEVICE)
    state = processor.init_state(context)
    torch.cuda.set_sync_debug_mode("error")
    try:
        state, first = processor.process_logits(state, logits[0].clone(), context)
        out = [first]
        for t in range(batch.steps):
            state = processor.advance(state, tokens[:, t])
            context = step(context, tokens[:, t])
            state, now = processor.process_logits(state, logits[t + 1].clone(), context)
            out.append(now)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return state, out


def compared(row: Row, dtype: torch.dtype) -> list[Difference]:
    """Compare a row of the registry on the device with itself on the CPU."""
    batch, name = continue_saved.batch(row, 0, dtype), f"{row.name}, {dtype}"
    wanted = run(row.processor, batch)
    try:
        # The first step brings tables to the device.
        context = lk.Context.of(batch.prompts, COLUMNS, device=DEVICE, max_length=MAX_LENGTH)
        row.processor.process_logits(row.processor.init_state(context), batch.logits[0].to(DEVICE), context)
        results = [on_device(batch, row.processor) for _ in range(REPEATS)]
    except RuntimeError as error:  # so torch says that the host reads a value; the other rows are compared too
        traceback.print_exc(limit=-3)
        return [Difference(name, f"{type(error).__name__}: {str(error)[:200]}")]
    return [difference for result in results for difference in differences_of(name, wanted, *result)]


def differences_of(name: str, wanted: Result, state: Any, logits: list[Tensor]) -> list[Difference]:
    """Compare the results of a batch with those of the CPU."""
    found = []
    for number, (expected, given) in enumerate(zip(wanted.logits, [one.cpu() for one in logits], strict=True)):
        if not torch.equal(expected.isneginf(), given.isneginf()):
            found.append(Difference(name, f"the mask of step {number}"))
        elif not torch.allclose(expected, given, equal_nan=True):
            worst = (expected.float() - given.float()).abs().nan_to_num(0).max()
            found.append(Difference(name, f"the logits of step {number}, by {worst:.3g}"))
    for expected, given in zip(leaves(wanted.state), leaves(state), strict=True):
        # The generation of a slot and sizes after the last value differ between runs, not between devices.
        if expected.shape != given.shape or not torch.allclose(expected, given.cpu()):
            found.append(Difference(name, f"the state, {tuple(expected.shape)}"))
    return found


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


@contextmanager
def without_graphs() -> Iterator[None]:
    """Run steps operation by operation."""
    before, StepGraphs.enabled = StepGraphs.enabled, False
    try:
        yield
    finally:
        StepGraphs.enabled = before


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


def generated() -> dict[str, float]:
    """Return the time per token of `generate` of transformers with the model of the demo, in ms, by what it runs with."""
    import transformers

    from logitkit_adapters.demo import model_dir
    from logitkit_adapters.transformers import logits_processor

    model: Any = transformers.AutoModelForCausalLM.from_pretrained(model_dir())
    model.to(DEVICE)
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_dir())
    inputs = tokenizer("The price of", return_tensors="pt").to(DEVICE)
    people = {"type": "array", "items": SCHEMA, "minItems": 9}
    with_hook = lambda: [logits_processor(people, tokenizer, model=model)]  # noqa: E731
    ways: dict[str, Callable[[], Any]] = {
        "without a hook": lambda: (nullcontext(), []),
        "with a hook": lambda: (nullcontext(), with_hook()),
        "with a hook, operation by operation": lambda: (without_graphs(), with_hook()),
        "without a hook again": lambda: (nullcontext(), []),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    texts = {}
    for turn in range(4):
        for name, way in ways.items():
            manager, hooks = way()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            with manager:
                ids = model.generate(
                    **inputs, do_sample=False, max_new_tokens=100, min_new_tokens=100, logits_processor=hooks
                )
            torch.cuda.synchronize()
            if turn:
                found[name].append((time.perf_counter() - begin) * 1e3 / (ids.shape[1] - inputs["input_ids"].shape[1]))
            texts[name] = ids.tolist()
    if texts["with a hook"] != texts["with a hook, operation by operation"]:
        raise SystemExit("generate wrote another text with graphs than operation by operation")
    return {name: statistics.median(times) for name, times in found.items()}


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
