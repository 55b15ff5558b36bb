"""Time several functions in turns, so that whatever else the machine does meets all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # it is not installed beside vLLM
    from pytest_benchmark.fixture import BenchmarkFixture


def medians(
    functions: Mapping[str, Callable[[], object]],
    rounds: int = 200,
    warmup: int = 10,
    calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
    before: Callable[[], object] | None = None,
) -> dict[str, float]:
    """Return the median time of each function, in seconds.

    Args:
        functions: The functions to time, by name. Each has a turn in every round.
        rounds: How many turns count.
        warmup: Rounds before, which do not count.
        calls: Calls in a turn. If there is more than one, another goes before them and does not count: it brings back into the
            processor's caches what the other functions have pushed out.
        clock: Seconds; `time.thread_time` and `time.process_time` do not count what other programs do meanwhile.
        before: Runs before every call, and does not count.
    """
    times: dict[str, list[float]] = {name: [] for name in functions}
    gc.disable()
    try:
        for turn in range(warmup + rounds):
            for name, function in functions.items():
                uncounted = int(calls > 1)
                for call in range(uncounted + calls):
                    if before is not None:
                        before()
                    begin = clock()
                    function()
                    took = clock() - begin
                    if turn >= warmup and call >= uncounted:
                        times[name].append(took)
    finally:
        gc.enable()
    return {name: statistics.median(took) for name, took in times.items()}


def seconds(benchmark: BenchmarkFixture) -> list[float]:
    """Return how long each round of a finished benchmark took, in ascending order."""
    assert benchmark.stats is not None, "--benchmark-disable leaves nothing to report"
    return sorted(benchmark.stats.stats.data)
