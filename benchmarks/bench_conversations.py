"""The cost of a call of a `Session` after thousands of conversations with the same beginning.

Each conversation has the same first 64 tokens and 8 tokens of its own, and generates one token. A call must take the same time
after 3,500 conversations as after 100, whether all fit into `max_cached_tokens` or the oldest are dropped. Run `pytest
benchmarks/bench_conversations.py`, or `python -m benchmarks.bench_conversations`.
"""

from __future__ import annotations

import random
import statistics
import time

import pytest
import torch

from benchmarks.tables import Tables
from logitkit_adapters.sessions import Session
from tests.sessions.engines import loaded

CONVERSATIONS = 3_500
SHARED, OWN = 64, 8
WINDOW = 100
# Most cached tokens, and what that means for them.
BOUNDS = {"all fit": 2**20, "the oldest go": 8_192}


def calls(name: str, max_cached_tokens: int) -> list[float]:
    """Return how many seconds of CPU time each call took: a busy machine shows less in them."""
    draw = random.Random(0)
    shared = [draw.randrange(3, 1280) for _ in range(SHARED)]
    times = []
    with Session(*loaded(name), max_length=256, max_cached_tokens=max_cached_tokens) as session:
        for _ in range(CONVERSATIONS):
            prompt = [*shared, *(draw.randrange(3, 1280) for _ in range(OWN))]
            begin = time.process_time()
            found = session.generate(prompt, max_new_tokens=1)
            times.append(time.process_time() - begin)
            assert found.cached_tokens >= (SHARED if len(times) > 1 else 0)
    return times


def rows(name: str, max_cached_tokens: int) -> list[tuple[str, float, float]]:
    """Return which calls, and the least and the median of their milliseconds of CPU time."""
    times = [1e3 * seconds for seconds in calls(name, max_cached_tokens)]
    windows = {"first": times[10 : 10 + WINDOW], "last": times[-WINDOW:]}
    return [(f"{which} {WINDOW}", min(part), statistics.median(part)) for which, part in windows.items()]


@pytest.mark.parametrize("name", ["transformers", "mlx-lm", "llama.cpp"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_many_conversations(name: str, bound: str, tables: Tables) -> None:
    table = tables.table(
        f"{CONVERSATIONS} conversations that begin alike in {name}, {bound}", "calls", "min ms", "median ms"
    )
    for row in rows(name, BOUNDS[bound]):
        table.add(*row)


def main() -> None:
    torch.set_num_threads(1)
    for name in ("transformers", "mlx-lm", "llama.cpp"):
        for bound, most in BOUNDS.items():
            for which, least, median in rows(name, most):
                print(f"{name}, {bound}, {which} calls: min {least:.2f} ms, median {median:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
