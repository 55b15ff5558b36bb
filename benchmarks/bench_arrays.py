"""The cost of converting an engine's logits to a tensor and back, compared with a bare `from_dlpack` and a copy by torch.

All but mlx share their memory, so their time does not depend on the width; mlx copies once. The third column is the whole call
of a hook: it converts ids and logits, and converts the logits back. Run `pytest benchmarks/bench_arrays.py
--benchmark-json=FILE`, or `python -m benchmarks.bench_arrays`.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from torch.utils.dlpack import from_dlpack

from benchmarks.side_by_side import medians
from benchmarks.tables import Tables

WIDTH = 131_072
IDS = 2_000


def made(kind: str, rows: int, width: int) -> tuple[Any, Any]:
    """Logits of an engine, and the ids that it shows with them."""
    import mlx.core as mx

    values = np.random.default_rng(0).standard_normal((rows, width), np.float32)
    ids = np.zeros((rows, IDS), np.int64)
    if kind == "numpy":
        return values, ids
    if kind == "numpy, a field of structures":
        return np.repeat(values[..., None], 3, 2)[..., 1], ids
    if kind == "torch":
        return torch.from_numpy(values), torch.from_numpy(ids)
    logits = mx.array(values, mx.bfloat16 if kind.endswith("bfloat16") else mx.float32)
    mlx_ids = mx.array(ids)
    mx.eval(logits, mlx_ids)
    return logits, mlx_ids


def check(logits: Any, copied: bool) -> None:
    """Assert that a round trip gives back what was given, and copies as is said."""
    from logitkit_adapters.arrays import logits_to_torch

    taken = logits_to_torch(logits)
    array, copied_back = taken.back(taken.tensor)
    assert (taken.copied, copied_back, array is logits) == (copied, False, not copied)
    assert (type(array), array.dtype, array.shape) == (type(logits), logits.dtype, logits.shape)
    assert torch.equal(logits_to_torch(array).tensor, taken.tensor)


@pytest.mark.parametrize(("rows", "width"), [(1, 8), (1, WIDTH), (32, WIDTH)])
@pytest.mark.parametrize("kind", ["numpy", "numpy, a field of structures", "torch", "mlx", "mlx, bfloat16"])
def test_round_trip(kind: str, rows: int, width: int, benchmark: BenchmarkFixture, tables: Tables) -> None:
    from logitkit_adapters.arrays import call_to_torch, logits_to_torch

    logits, ids = made(kind, rows, width)
    check(logits, copied=kind.startswith("mlx"))

    def round_trip() -> None:
        taken = logits_to_torch(logits)
        taken.back(taken.tensor)

    def call() -> None:
        _, taken = call_to_torch(ids, logits)
        taken.back(taken.tensor)

    rounds, calls = (500, 5) if rows * width < 32 * WIDTH else (50, 2)
    functions = {
        "round trip": round_trip,
        "call": call,
        "from_dlpack": lambda: from_dlpack(logits),
        "copy": lambda: from_dlpack(logits).clone(),
    }
    found = {name: took * 1e6 for name, took in medians(functions, rounds=rounds, calls=calls).items()}
    benchmark.pedantic(round_trip, rounds=50, warmup_rounds=5)
    benchmark.extra_info.update({f"{name}_us": took for name, took in found.items()})
    table = tables.table(
        "Logits to torch and back, us (medians)",
        *("logits", "to torch and back", "with ids", "from_dlpack alone", "a copy by torch"),
    )
    table.add(f"{kind} [{rows}, {width}]", *found.values())


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
