"""Steps that are captured and replayed without a CUDA device.

A graph is a function here, which runs again on the tensors that the graph owns. So a step that reads a tensor of another call
is wrong here too. `benchmarks/bench_cuda.py` uses real graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from logitkit.protocol import leaves
from logitkit.runtime import step_graphs
from logitkit.runtime.step_graphs import StepGraphs
from tests.batches import tensor_path

__all__ = ["Again", "captured_after", "graphs"]


class Again:
    """Captures a function by keeping it."""

    def __init__(self) -> None:
        self.now = self.replayed = 0
        self.functions: list[Any] = []
        self.streams: list[object] = []

    @property
    def captured(self) -> int:
        return len(self.functions)

    def stream(self) -> int | None:
        return self.now

    def capture(self, function: Any, stream: object) -> tuple[Callable[[], None], Any]:
        results = function()
        self.functions.append(function.func)
        self.streams.append(stream)

        def replay() -> None:
            self.replayed += 1
            for own, new in zip(leaves(results), leaves(function()), strict=True):
                own.copy_(new)

        return replay, results


@contextmanager
def captured_after(calls: int) -> Iterator[None]:
    """Capture steps after some calls, whatever other threads there are."""
    with mock.patch.object(step_graphs, "CALLS", calls), mock.patch.object(StepGraphs, "enabled", True):
        yield


@contextmanager
def graphs(calls: int = 1) -> Iterator[Again]:
    """Run by tensors, and capture steps after some calls, in banks that are made meanwhile."""
    again = Again()
    captures = mock.patch("logitkit.runtime.bank_layout.capture_on", return_value=again)
    with tensor_path(), captures, captured_after(calls):
        yield again
