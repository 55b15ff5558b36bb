"""The memory that it takes to compile many tools, in a process of its own.

    python -m benchmarks.tool_memory [500]

It prints the growth of the process (of its resident pages) at the worst moment, and what the arrays of the constraint keep. The
tokens, and a constraint for three other tools, are there before. Only Linux tells the peak of a moment.
"""

from __future__ import annotations

import argparse
import gc
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

import logitkit as lk
from benchmarks.bench_tool_calls import LIMITS, language_of, tools_of
from tests import vocabularies

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident(field: str) -> float:
    """Return a field of the process's memory, in MB: `VmRSS` now, `VmHWM` the most."""
    (line,) = [line for line in STATUS.read_text("ascii").splitlines() if line.startswith(f"{field}:")]
    return int(line.split()[1]) / 1024


def array_bytes(value: Any, met: set[int]) -> int:
    """Return the bytes of all arrays that something refers to, without the vocabulary."""
    if id(value) in met or isinstance(value, lk.Vocabulary | type | str | int | float | None):
        return 0
    met.add(id(value))
    if isinstance(value, np.ndarray):
        return value.nbytes if value.base is None else array_bytes(value.base, met)
    if isinstance(value, torch.Tensor):
        return value.nbytes
    if isinstance(value, dict):
        return sum(array_bytes(part, met) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple | set | frozenset):
        return sum(array_bytes(part, met) for part in value)
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    inside = [getattr(value, name) for name in slots if hasattr(value, name)]
    return sum(array_bytes(part, met) for part in [*inside, *getattr(value, "__dict__", {}).values()])


def measure(count: int) -> dict[str, float]:
    """Return megabytes: how much the process grows at most, and what the constraint's tables take."""
    torch.set_num_threads(1)
    vocabulary = vocabularies.tekken()
    language_of(tools_of(3, -1)).constraint(vocabulary)
    tools = tools_of(count, count * 1000)
    gc.collect()
    RESET.write_text("5", "ascii")
    before = resident("VmRSS")
    constraint = language_of(tools).constraint(vocabulary, limits=LIMITS)
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    constraint.process_logits(constraint.init_state(context), torch.zeros(1, vocabulary.size), context)
    peak = resident("VmHWM") - before
    return {"peak": round(peak, 1), "tables": round(array_bytes(constraint.automaton, set()) / 2**20, 1)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int, nargs="?", default=500)
    print(json.dumps(measure(parser.parse_args().count)))


if __name__ == "__main__":
    main()
