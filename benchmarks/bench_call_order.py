"""The cost of an order of calls: CPU time from tools to the first mask, and of a step, beside the same tools in any order.

    python -m benchmarks.bench_call_order [--tools 20,500] [--rounds 7]

The tools are those of `bench_tool_calls`, new in each measurement, in the format of Hermes, with the vocabulary Tekken (131,072
ids). All options take turns within each round, on one thread. Before anything is measured, each constraint has to accept calls in
an allowed order, and to refuse others.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
from typing import Any

import torch

import logitkit as lk
from benchmarks.bench_tool_calls import LIMITS, Tool, spelled, tools_of, value
from tests import vocabularies


def options_of(names: list[str]) -> dict[str, dict[str, Any]]:
    """Return the options to compare, given the names of the tools."""
    found: dict[str, dict[str, Any]] = {
        "any order": {},
        "any order, again": {},
        "one to three": {"parallel_calls": (1, 3)},
        "one after another": {"allowed_after": {names[0]: [names[1]]}},
    }
    if len(names) <= 20:
        found["one to three, unique"] = {"parallel_calls": (1, 3), "unique": True}
    return found


def call_of(tool: Tool) -> lk.ToolCall:
    """Return a call of a tool with its required arguments."""
    name, schema = tool
    return lk.ToolCall(name, {r: json.loads(value(schema["properties"][r])) for r in schema["required"]})


def check(tools: lk.Tools, given: list[Tool], options: dict[str, Any], vocabulary: lk.Vocabulary) -> None:
    """Refuse to measure a constraint that does not enforce its options."""
    first, second, *_ = map(call_of, given)
    accepts = {
        "in order": ([second, first], True),
        "reversed": ([first, second], "allowed_after" not in options),
        "twice": ([second, second], not options.get("unique")),
        "four": ([second, first] * 2, "parallel_calls" not in options),
    }
    for name, (calls, expected) in accepts.items():
        turn = tools.parse([*spelled(tools.write(calls), vocabulary), *vocabulary.eos_ids], vocabulary)
        assert (turn.outside_at is None) == expected, (options, name, turn)


def steps(constraint: Any, ids: list[int], vocabulary: lk.Vocabulary) -> float:
    """Return the microseconds of CPU time of a step, with a mask, of one row."""
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state, logits = constraint.init_state(context), torch.zeros(1, vocabulary.size)
    begin = time.process_time()
    for token in ids:
        constraint.process_logits(state, logits, context)
        state = constraint.advance(state, torch.tensor([token]))
    return (time.process_time() - begin) / len(ids) * 1e6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", default="20,500")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    vocabulary = vocabularies.tekken()
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    lk.Tools([{"name": "warm"}], choice="required").constraint(vocabulary)
    for count in map(int, arguments.tools.split(",")):
        times: dict[str, list[float]] = {}
        walked: dict[str, list[float]] = {}
        for seed in range(-1, arguments.rounds):
            # Each option gets tools of its own, whose schemas were never met.
            names = list(options_of([name for name, _ in tools_of(count, 0)]))
            for at in random.Random(seed).sample(range(len(names)), len(names)):
                given = tools_of(count, 1_000_000 + count * 1000 + 10 * seed + at)
                options = options_of([name for name, _ in given])[names[at]]
                tools = lk.Tools([{"name": name, "parameters": schema} for name, schema in given], **options)
                if seed < 0:
                    # The first round checks, and makes the tables that a vocabulary has once.
                    check(tools, given, options, vocabulary)
                    continue
                gc.collect()
                begin = time.process_time()
                constraint = tools.constraint(vocabulary, limits=LIMITS)
                constraint.process_logits(constraint.init_state(context), torch.zeros(1, vocabulary.size), context)
                times.setdefault(names[at], []).append((time.process_time() - begin) * 1e3)
                ids = spelled(tools.write([call_of(given[1]), call_of(given[0])]), vocabulary)
                walked.setdefault(names[at], []).append(steps(constraint, ids, vocabulary))
        plain = statistics.median(times["any order"])
        for name, values in times.items():
            found, step = statistics.median(values), statistics.median(walked[name])
            print(f"{count} tools, {name}: {found:.0f} ms ({found / plain:.2f}), a step {step:.0f} us", flush=True)


if __name__ == "__main__":
    main()
