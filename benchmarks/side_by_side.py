"""Time several functions in turns, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

from pytest_benchmark.fixture import BenchmarkFixture


def medians(functions: Mapping[str, Callable[[], object]], rounds: int = 200, warmup: int = 10) -> dict[str, float]:
    """Return the median time of each function, in seconds.

    Args:
        functions: What to time, by name. Each round calls every one once.
        rounds: How often.
        warmup: Rounds before, which do not count.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    clock = time.perf_counter
    gc.disable()
    try:
        for turn in range(warmup + rounds):
            for name, function in functions.items():
                begin = clock()
                function()
                took = clock() - begin
                if turn >= warmup:
                    times[name].append(took)
    finally:
        gc.enable()
    return {name: sorted(took)[len(took) // 2] for name, took in times.items()}


def seconds(benchmark: BenchmarkFixture) -> list[float]:
    """Return how long each round of a finished benchmark took, in ascending order."""
    assert benchmark.stats is not None, "--benchmark-disable leaves nothing to report"
    return sorted(benchmark.stats.stats.data)
