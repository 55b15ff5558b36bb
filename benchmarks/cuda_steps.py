"""The time of a step on a CUDA device: the device's, captured, and the host's, for an eager call."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import logitkit as lk
from benchmarks.cuda_comparison import DEVICE, captured
from logitkit.kernels import parts, switch
from logitkit.kernels.constraint_step import constraint_step
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.constraint_state import ConstraintState
from tests import vocabularies

__all__ = ["SCHEMA", "microseconds", "subjects", "timed"]

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
PENALTIES = lk.RepetitionPenalty(1.1), lk.FrequencyPenalty(0.2), lk.PresencePenalty(0.2)
SAMPLING = (lk.Temperature(0.7), lk.TopK(50), lk.TopP(0.9), lk.MinP(0.05))
PALINDROMES = 'root ::= "a" root "a" | "b" root "b" | "1" root? "1" | ""'

# Calls in a graph, and replays of each graph.
CALLS, REPLAYS = 10, 9
# Tokens before the step that is timed, so that rows are in different states.
WALKED = 7


def subjects() -> dict[str, Callable[[], Any]]:
    """Return what is timed: functions that make processors, by name."""
    v = vocabularies.tekken()
    return {
        "Regex, any text": lambda: lk.Regex(r"\w+(?:\W+\w+)*", v),
        "Regex, a date": lambda: lk.Regex(r"\d{4}-\d{2}-\d{2}", v),
        "JsonSchema": lambda: lk.JsonSchema(SCHEMA, v),
        "JsonSchema, any": lambda: lk.JsonSchema(True, v),
        "JsonSchema, closing": lambda: lk.JsonSchema(SCHEMA, v, closing=200),
        "Grammar": lambda: lk.Grammar(GRAMMAR, v),
        "Grammar, ambiguous": lambda: lk.Grammar(PALINDROMES, v),
        "BannedStrings": lambda: lk.BannedStrings(["as an AI", "I cannot", "sorry"], v),
        "StopStrings": lambda: lk.StopStrings(["\n\n", "</answer>", "Observation:"], v),
        "StopStrings, after a stop": lambda: lk.StopStrings([*"abcdefghijklmnopqrstuvwxyz", *"0123456789 ."], v),
        "ThinkingBudget": lambda: lk.ThinkingBudget(100, "</think>", v),
        "ThinkingBudget, spent": lambda: lk.ThinkingBudget(1, "</think>", v),
        "RepetitionPenalty": lambda: lk.RepetitionPenalty(1.1),
        "FrequencyPenalty, a window": lambda: lk.FrequencyPenalty(0.5, window=512),
        "NoRepeatNGram": lambda: lk.NoRepeatNGram(3),
        "Dry": lambda: lk.Dry(0.8, breakers=[10]),
        "LogitBias": lambda: lk.LogitBias(dict.fromkeys(range(300), 1.0)),
        "Temperature": lambda: lk.Temperature(0.7),
        "MinP": lambda: lk.MinP(0.1),
        "TopK": lambda: lk.TopK(50),
        "TopP": lambda: lk.TopP(0.9),
        "TypicalP": lambda: lk.TypicalP(0.9),
        "a chain": lambda: lk.chain(
            lk.JsonSchema(SCHEMA, v), lk.RepetitionPenalty(1.1), lk.Temperature(0.7), lk.TopK(50), lk.TopP(0.9)
        ),
        "Temperature and TopP": lambda: lk.chain(lk.Temperature(0.7), lk.TopP(0.9)),
        "Temperature and TopP, one by one": lambda: one_by_one(lk.chain(lk.Temperature(0.7), lk.TopP(0.9))),
        "Penalties and TopP": lambda: lk.chain(*PENALTIES, lk.Temperature(0.7), lk.TopP(0.9)),
        "Penalties and TopP, one by one": lambda: one_by_one(lk.chain(*PENALTIES, lk.Temperature(0.7), lk.TopP(0.9))),
        "Sampling": lambda: lk.chain(*SAMPLING),
        "Sampling, one by one": lambda: one_by_one(lk.chain(*SAMPLING)),
    }


def one_by_one(chain: lk.Chain) -> lk.Chain:
    """Return a chain whose processors share no pass over the logits."""
    vars(chain)["_run_ends"] = tuple(range(1, len(chain.processors) + 1))
    return chain


def microseconds(graphs: dict[str, torch.cuda.CUDAGraph], calls: int = CALLS) -> dict[str, float]:
    """Time graphs in turns, by events: medians in us for each call in them."""
    found: dict[str, list[float]] = {name: [] for name in graphs}
    for turn in range(REPLAYS + 1):
        for name, graph in graphs.items():
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if turn:
                found[name].append(begin.elapsed_time(end) * 1e3 / calls)
    return {name: round(statistics.median(times), 1) for name, times in found.items()}


def host(function: Callable[[], object], calls: int = 200) -> float:
    """Return the median time in us that the host takes for a call, without waiting for the device."""
    times = []
    for turn in range(6):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(calls // 5):
            function()
        if turn:
            times.append((time.perf_counter() - begin) / (calls // 5) * 1e6)
    torch.cuda.synchronize()
    return round(statistics.median(times), 1)


def walked(processor: Any, rows: int, context: lk.Context) -> tuple[Any, Tensor]:
    """Return the state of some rows after a few tokens, different ones in each row, and the last tokens."""
    size = context.vocabulary_size
    generator, state = torch.Generator(DEVICE).manual_seed(0), processor.init_state(context)
    token = torch.full((rows,), -1, device=DEVICE)
    for _ in range(WALKED):
        logits = torch.randn(rows, size, generator=generator, device=DEVICE)
        logits[:, list(vocabularies.tekken().eos_ids)] = -torch.inf
        token = processor.process_logits(state, logits, context)[1].argmax(1)
        state = processor.advance(state, token)
    return state, token


def timed(name: str, processor: Any, rows: int, at_once: list[int]) -> dict[str, Any]:
    """Time the steps of some rows of a processor.

    Args:
        name: The name to print.
        processor: The processor.
        rows: The number of rows.
        at_once: Numbers of programs for each processor of the device to try instead of the default, for constraints.
    """
    size = vocabularies.tekken().size
    context = lk.Context.of([[5, 6, 7]] * rows, vocabulary_size=size, device=DEVICE, max_length=256)
    state, token = walked(processor, rows, context)
    # No token is committed where advance and mask follow each other, so that each step finds the same state.
    none = torch.full((rows,), -1, device=DEVICE)
    logits = torch.randn(rows, size, generator=torch.Generator(DEVICE).manual_seed(1), device=DEVICE)

    def advance() -> Any:
        return processor.advance(state, token)

    def mask() -> Any:
        return processor.process_logits(state, logits, context)[1]

    def both() -> Any:
        return processor.process_logits(processor.advance(state, none), logits, context)[1]

    ways: dict[str, Callable[[], Any]] = {
        "pass": lambda: logits.add_(0),
        "advance": advance,
        "mask": mask,
        "both": both,
    }
    if isinstance(processor, Constraint) and isinstance(state, ConstraintState) and switch.runs_on(token, logits):
        tables = processor.registry.layout_on(logits.device).kernel_tables
        place = state.at.slot, state.at.generation, (state.at.state, state.stack, state.left)
        ways["fused"] = lambda: constraint_step(tables, *place, none, logits)
    graphs = {way: captured(function, CALLS)[0] for way, function in ways.items()}
    for many in at_once:
        before, parts.AT_ONCE = parts.AT_ONCE, many
        parts._programs.cache_clear()
        graphs[f"mask, {many} at once"] = captured(mask, CALLS)[0]
        parts.AT_ONCE = before
        parts._programs.cache_clear()
    found: dict[str, Any] = microseconds(graphs)
    found |= {f"host, {way}": host(function) for way, function in ways.items() if way in ("advance", "mask")}
    print(f"{rows:4} {name:26} {found}", flush=True)
    return found
