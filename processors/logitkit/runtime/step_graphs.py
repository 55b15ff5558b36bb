"""Steps on a CUDA device as CUDA graphs, which the host starts as a whole.

A step of a nested schema has about 400 small operations. The host needs some 6 ms to start them one by one, and the device less
than one to run them. A CUDA graph is a record of such operations: it is captured once, and replayed by one call of the host.

A graph reads and writes fixed addresses. So the inputs of a step are copied into tensors that belong to the graph, the graph is
replayed, and its results are copied out of it. The tables of a bank do not move as long as they are not laid out again, and each
layout has its own graphs; so the graphs read the tables directly, including automata added later.

Example, by hand: a generation of one row calls `advance` with tensors of the same shapes for each token. The first calls run
operation by operation, since most shapes do not come again. The next one is captured, and every later one replays it.

Invariants: all graphs of a stream share the memory of their intermediate results, and run one after another. Results leave a
graph before the next one is replayed, so states stay values: no later step changes them. No step waits for the device.

While a thread captures, CUDA and torch let no other one synchronize the whole device, and torch before 2.13 lets none draw random
numbers there: these fail. So by default a step is captured only if no other thread runs Python. Replaying disturbs no thread.
"""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, TypeVar

import torch
from torch import Tensor
from torch.compiler import is_compiling

from logitkit.compiler.collection import uncollected
from logitkit.errors import ConfigurationError
from logitkit.protocol.state import leaves, map_tensors

__all__ = ["CudaCapture", "StepGraphs", "capture_on"]

T = TypeVar("T")

# How many calls with the same shapes run operation by operation before one is captured, which takes as long as a few of them.
CALLS = 3

# How many graphs are kept for each layout, and for how many shapes calls are counted: in both cases, those used last.
MOST, COUNTED = 128, 1024

# The environment variable that says whether to capture steps, for servers whose code is not the user's.
VARIABLE = "LOGITKIT_CUDA_GRAPHS"
CHOICES = {"auto": None, "on": True, "off": False}


def chosen(text: str) -> bool | None:
    """Return the meaning of the environment variable, as in `StepGraphs.enabled`.

    Raises:
        ConfigurationError: It is not one of the choices.
    """
    if text not in CHOICES:
        raise ConfigurationError(f"the environment variable {VARIABLE} is {text!r}; allowed are 'auto', 'on' and 'off'")
    return CHOICES[text]


def _alone() -> bool:
    """Whether no other thread could use the device: transformers starts the monitor of tqdm, which does not."""
    here = threading.current_thread()
    return all(thread is here or thread.name == "tqdm_monitor" for thread in threading.enumerate())


class Capture(Protocol):
    """Captures what a function does with tensors of a device."""

    def stream(self) -> Hashable | None:
        """Return the queue in which the operations of the device run now, or None if nothing can be captured in it."""

    def capture(self, function: Callable[[], T], stream: Hashable) -> tuple[Callable[[], None], T]:
        """Return a function that replays the given one, and the tensors to which it writes the results."""


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
        # The first graph of each stream, whose memory the others use. Torch deletes the memory with the last graph that uses it.
        self._first: dict[Hashable, torch.cuda.CUDAGraph] = {}

    def stream(self) -> Hashable | None:
        """Return the current stream, or None if the user captures a graph there, which gets the operations themselves."""
        with torch.cuda.device(self._device):
            return None if torch.cuda.is_current_stream_capturing() else torch.cuda.current_stream().cuda_stream

    def capture(self, function: Callable[[], T], stream: Hashable) -> tuple[Callable[[], None], T]:
        """Capture a graph; see `Capture`.

        `torch.cuda.graph` would also wait for the device, collect garbage and return all free memory to the device.
        """
        first = self._first.get(stream)
        # Garbage may contain graphs, which cannot be deleted while one is captured.
        with self._turn, torch.cuda.device(self._device), uncollected():
            number = torch.cuda.current_device()
            if number not in self._aside:
                self._aside[number] = torch.cuda.Stream(priority=-1)  # type: ignore[no-untyped-call]
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.stream(self._aside[number]):
                graph.capture_begin(pool=None if first is None else first.pool(), capture_error_mode="thread_local")
                try:
                    results = function()
                    graph.capture_end()
                except BaseException:
                    # The stream must not go on capturing. If that fails too, it says less than the first error.
                    with contextlib.suppress(RuntimeError):
                        graph.capture_end()
                    # Neither must the generator of random numbers, or sampling would fail from now on.
                    generator = torch.cuda.default_generators[number]
                    generator.graphsafe_set_state(generator.clone_state())
                    raise
        self._first.setdefault(stream, graph)
        return graph.replay, results


def capture_on(device: torch.device) -> Capture | None:
    """Return the object that captures steps on a device, or None if steps are not captured there."""
    return CudaCapture(device) if device.type == "cuda" else None


@dataclass(frozen=True, slots=True, eq=False)
class _Graph:
    """A captured step.

    Args:
        given: The tensors that it reads.
        results: The tensors that it writes, in the structure of the function's result.
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

    # Whether graphs are captured and replayed. None: captured only while no other thread runs Python, and replayed always.
    # True: the user makes sure that meanwhile no other thread samples or synchronizes the device.
    enabled: ClassVar[bool | None] = chosen(os.environ.get(VARIABLE, "auto"))

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture
        self._lock = threading.Lock()
        # By function, stream and shapes: the graph, or None where capturing has failed; the number of calls before.
        self._graphs: OrderedDict[Hashable, _Graph | None] = OrderedDict()
        self._calls: OrderedDict[Hashable, int] = OrderedDict()

    def run(self, function: Callable[..., T], tables: Any, *given: Any) -> T:
        """Return what a function returns for some tables and tensors.

        Args:
            function: Takes these arguments, reads no value on the host, and changes none of its arguments.
            tables: Tensors that stay where they are, the same ones in each call of the function.
            given: Tensors, and tuples of them.
        """
        if is_compiling() or self._capture is None or self.enabled is False:
            return function(tables, *given)
        tensors = leaves(given)
        # Other classes, such as fake tensors, have operations of their own. Without rows, there is nothing to capture.
        plain = all(type(tensor) is Tensor for tensor in tensors) and len(tensors[0]) > 0
        stream = self._capture.stream() if plain else None
        if stream is None:
            return function(tables, *given)
        key = function, stream, *((tensor.shape, tensor.dtype, tensor.device) for tensor in tensors)
        with self._lock:
            if key not in self._graphs and self._calls.get(key, 0) >= CALLS and (self.enabled or _alone()):
                made, failed = self._captured(self._capture, stream, function, tables, given)
                _put(self._graphs, key, made, MOST)
                if made is None:
                    warnings.warn(
                        f"a step could not be captured as a CUDA graph ({failed}); steps of these shapes run operation by "
                        "operation, which takes longer and changes nothing else",
                        RuntimeWarning,
                        stacklevel=2,
                    )
            graph = self._graphs.get(key)
            if graph is not None:
                self._graphs.move_to_end(key)
                found: T = graph(tensors)
                return found
        found = function(tables, *given)
        with self._lock:
            _put(self._calls, key, self._calls.pop(key, 0) + 1, COUNTED)
        return found

    def _captured(
        self, capture: Capture, stream: Hashable, function: Callable[..., Any], tables: Any, given: tuple[Any, ...]
    ) -> tuple[_Graph | None, str]:
        """Return the graph of a call, or None and what failed."""
        # Tensors created under inference_mode could not be written outside of it.
        with torch.inference_mode(False):
            try:
                own = map_tensors(given, Tensor.clone)
                replay, results = capture.capture(partial(function, tables, *own), stream)
            except RuntimeError as error:
                return None, str(error)[:200]
        return _Graph(leaves(own), results, replay), ""


def _put(cache: OrderedDict[Hashable, T], key: Hashable, value: T, most: int) -> None:
    """Put a value into a cache, from which the one used least recently is dropped if it is full."""
    cache[key] = value
    if len(cache) > most:
        cache.popitem(last=False)
