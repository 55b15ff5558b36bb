"""transformers' asynchronous batching and CUDA graphs on a CPU: its own code runs, with streams and graphs that are stand-ins.

*Asynchronous*: the host prepares a step before it has read the tokens of the step before, exactly as on a GPU, because
transformers orders these calls itself. Streams and events do nothing here, since a CPU computes at once.

*Graphs*: a `Tape` records the operations of a step and runs them again, on the same tensors and without any Python of the step.
As on a GPU, recording changes nothing: what the operations have written is restored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from typing import Any
from unittest import mock

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten
from transformers.generation.continuous_batching import initialization, input_outputs, model_runner

from logitkit_adapters.transformers.request_slots import RequestSlots

__all__ = ["asynchronous", "graphs"]


class Nothing:
    """A stream or an event of a device that computes at once."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record_event(self, event: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass


def asynchronous(patch: pytest.MonkeyPatch) -> None:
    """Allow asynchronous batching on a CPU."""
    patch.setattr(import_module("logitkit_adapters.transformers.continuous_batching"), "ASYNCHRONOUS", ("cpu",))
    patch.setattr(input_outputs.ContinuousBatchingAsyncIOs, "_supported_device_types", ("cpu",))
    patch.setattr(input_outputs, "create_device_stream", lambda device: Nothing())
    patch.setattr(torch, "Event", Nothing)
    for part in (input_outputs, model_runner):
        patch.setattr(part, "stream_context", lambda stream: nullcontext())
    patch.setattr(
        "transformers.generation.continuous_batching.continuous_api.stream_context", lambda stream: nullcontext()
    )


class Tape:
    """A graph: the operations of a step, on the tensors that it was recorded with."""

    made = 0
    replays = 0

    def __init__(self) -> None:
        Tape.made += 1
        self._calls: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def reset(self) -> None:
        self._calls.clear()

    def replay(self) -> None:
        Tape.replays += 1
        with torch.no_grad():
            for call, args, kwargs, results in self._calls:
                for old, new in zip(tensors_of(results), tensors_of(call(*args, **kwargs)), strict=True):
                    if old.data_ptr() != new.data_ptr():
                        old.copy_(new)

    @contextmanager
    def recording(self) -> Iterator[None]:
        recorder = Recorder()
        with recorder:
            yield
        for tensor, values in recorder.before:
            tensor.copy_(values)
        self._calls = recorder.calls


class Recorder(TorchDispatchMode):
    """Runs operations, and remembers them and the values that they overwrite."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self.before: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._made: set[int] = set()

    def __torch_dispatch__(self, call: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if call is torch.ops.aten._local_scalar_dense.default:
            raise RuntimeError("a captured step reads a value on the host")
        for argument, value in zip(call._schema.arguments, args, strict=False):
            if argument.alias_info is not None and argument.alias_info.is_write:
                for tensor in tensors_of(value):
                    if tensor.untyped_storage().data_ptr() not in self._made:
                        self.before.insert(0, (tensor, tensor.clone()))
        results = call(*args, **kwargs)
        if not any(returned.alias_info is not None for returned in call._schema.returns):
            self._made.update(tensor.untyped_storage().data_ptr() for tensor in tensors_of(results))
        self.calls.append((call, args, kwargs, results))
        return results


def tensors_of(values: Any) -> list[torch.Tensor]:
    return [value for value in tree_flatten(values)[0] if isinstance(value, torch.Tensor)]


@contextmanager
def graphs(patch: pytest.MonkeyPatch) -> Iterator[type[Tape]]:
    """Let transformers capture its steps on tapes, with processors on the path of accelerators."""
    Tape.made = Tape.replays = 0
    patch.setattr(initialization, "get_accelerator_graph_name", lambda: "Tape")
    patch.setattr(model_runner, "get_memory_pools", lambda: (None, 0))
    patch.setattr(model_runner, "memory_pool_context", lambda pool: nullcontext())
    patch.setattr(model_runner, "create_accelerator_graph", Tape)
    patch.setattr(model_runner, "accelerator_graph_capture_context", lambda graph, stream, pool: graph.recording())
    patch.setattr(model_runner, "stream_context", lambda stream: nullcontext())
    with mock.patch.object(RequestSlots, "process", on_tensors):
        yield Tape


_process: Any = RequestSlots.process


def on_tensors(slots: Any, tokens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """Process scores as on an accelerator."""
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        found: torch.Tensor = _process(slots, tokens, scores)
    return found
