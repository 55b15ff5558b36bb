"""Steps on a CUDA device as CUDA graphs, which the host starts as a whole.

A step of a nested schema has about 400 small operations. The host needs some 6 ms to start them one by one, and the device less
than one to run them. A CUDA graph is a record of such operations: it is captured once, and replayed by one call of the host.

A graph reads and writes fixed addresses. So what a step is given is copied into tensors that belong to the graph, the graph is
replayed, and its results are copied out of it. The tables of a bank do not move as long as they are not laid out again, and the
graphs belong to one layout; so the graphs read them directly, with the automata that were added meanwhile.

Example, by hand: a generation of one row calls `advance` with tensors of the same shapes for each token. The first calls run
operation by operation, since most shapes do not come again. The next one is captured, and every later one replays it.

Invariants: all graphs of a stream share the memory of their intermediate results, and run one after another. Results leave a
graph before the next one is replayed, so states stay values: no later step changes them. The host waits for nothing.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_compiling

from logitkit.protocol.state import leaves, map_tensors

__all__ = ["CudaCapture", "StepGraphs", "capture_on"]

T = TypeVar("T")

# How many calls with the same shapes run operation by operation before one is captured, which takes as long as a few of them.
CALLS = 3

# How many graphs are kept for each layout, those used last. A server has two for each size of its batch.
MOST = 128


class Capture(Protocol):
    """Captures what a function does with tensors of a device."""

    def stream(self) -> Hashable | None:
        """Return the queue in which the operations of the device run now, or None if nothing can be captured in it."""

    def capture(self, function: Callable[[], T], stream: Hashable) -> tuple[Callable[[], None], T]:
        """Return a function that does again what the function does, and the results that this writes."""


class CudaCapture:
    """Captures CUDA graphs.

    Args:
        device: The device.
    """

    # Torch hands out the same few streams again and again. If another thread had the one in which a graph is captured, its
    # operations would go into the graph. So all captures on a device take turns in one stream, of a priority that few ask for.
    _turn: ClassVar[threading.Lock] = threading.Lock()
    _aside: ClassVar[dict[int, torch.cuda.Stream]] = {}

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pools: dict[Hashable, Any] = {}

    def stream(self) -> Hashable | None:
        """Return the current stream, or None if a graph is captured there, which then contains the operations themselves."""
        with torch.cuda.device(self._device):
            return None if torch.cuda.is_current_stream_capturing() else torch.cuda.current_stream().cuda_stream

    def capture(self, function: Callable[[], T], stream: Hashable) -> tuple[Callable[[], None], T]:
        """Capture a graph; see `Capture`.

        `torch.cuda.graph` would also wait for the device, collect garbage and return all free memory to the device.
        """
        with self._turn, torch.cuda.device(self._device):
            if stream not in self._pools:
                self._pools[stream] = torch.cuda.graph_pool_handle()
            number = torch.cuda.current_device()
            if number not in self._aside:
                self._aside[number] = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
            graph, current, aside = torch.cuda.CUDAGraph(), torch.cuda.current_stream(), self._aside[number]
            aside.wait_stream(current)
            with torch.cuda.stream(aside):
                graph.capture_begin(pool=self._pools[stream], capture_error_mode="thread_local")
                try:
                    results = function()
                finally:
                    graph.capture_end()
            current.wait_stream(aside)
        return graph.replay, results


def capture_on(device: torch.device) -> Capture | None:
    """Return what captures graphs on a device, or None if it has none."""
    return CudaCapture(device) if device.type == "cuda" else None


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """A captured step.

    Args:
        given: The tensors that it reads.
        results: What it writes, in the structure of the function's result.
        replay: Runs it.
    """

    given: list[Tensor]
    results: Any
    replay: Callable[[], None]

    def __call__(self, given: list[Tensor]) -> Any:
        for own, tensor in zip(self.given, given, strict=True):
            own.copy_(tensor)
        self.replay()
        return map_tensors(self.results, Tensor.clone)


class StepGraphs:
    """Run functions of tensors on a device, captured as graphs where their shapes come again. Thread-safe.

    Args:
        capture: Captures graphs; None runs every call operation by operation.
    """

    # Whether graphs are captured and replayed. Set it to False to run all steps operation by operation.
    enabled: ClassVar[bool] = True

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self._lock = threading.Lock()
        # The graph of each function, shapes and stream; before there is one, the number of calls; None if there cannot be one.
        self._graphs: OrderedDict[Hashable, _Graph | int | None] = OrderedDict()

    def __len__(self) -> int:
        """Return how many graphs there are, with the shapes that are not captured yet."""
        return len(self._graphs)

    def run(self, function: Callable[..., T], tables: Any, *given: Any) -> T:
        """Return what a function returns for some tables and tensors.

        Args:
            function: Takes these arguments, reads no value on the host, and changes none of its arguments.
            tables: Tensors that stay where they are.
            given: Tensors, and tuples of them.
        """
        if is_compiling() or self._capture is None or not self.enabled:
            return function(tables, *given)
        tensors = leaves(given)
        # Other classes, such as fake tensors, have operations of their own.
        plain = all(type(tensor) is Tensor for tensor in tensors)
        stream = self._capture.stream() if plain else None
        if stream is None:
            return function(tables, *given)
        key = function, stream, *((tensor.shape, tensor.dtype) for tensor in tensors)
        with self._lock:
            graph = self._graphs.pop(key, 0)
            if isinstance(graph, int):
                graph = graph + 1 if graph < CALLS else self._captured(self._capture, stream, function, tables, given)
            self._graphs[key] = graph
            if len(self._graphs) > MOST:
                self._graphs.popitem(last=False)
            if isinstance(graph, _Graph):
                found: T = graph(tensors)
                return found
        return function(tables, *given)

    def _captured(
        self, capture: Capture, stream: Hashable, function: Callable[..., Any], tables: Any, given: tuple[Any, ...]
    ) -> _Graph | None:
        # Tensors created under inference_mode could not be written outside of it.
        with torch.inference_mode(False), torch.no_grad():
            own = map_tensors(given, Tensor.clone)
            try:
                replay, results = capture.capture(lambda: function(tables, *own), stream)
            except RuntimeError as error:
                warnings.warn(
                    f"a step could not be captured as a CUDA graph ({str(error)[:200]}); steps of these shapes run operation by "
                    "operation, which takes longer and changes nothing else",
                    RuntimeWarning,
                    stacklevel=3,
                )
                return None
        return _Graph(leaves(own), results, replay)
