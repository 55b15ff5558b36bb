"""The shipped model with faults in its logits, as an overflow, damaged weights or a wrong attention mask make them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.sessions.engines import loaded

__all__ = ["FAULTS", "Fault", "Passes", "faulty"]

# Changes the logits of a position, [V] float32, in place.
Fault = Callable[[NDArray[np.float32]], None]


def _put(place: Any, value: float) -> Fault:
    def fault(logits: NDArray[np.float32]) -> None:
        logits[place] = value

    return fault


# Token 1000 is banned by most constraints of the tests.
FAULTS: dict[str, Fault] = {
    "all NaN": _put(slice(None), np.nan),
    "all +inf": _put(slice(None), np.inf),
    "all -inf": _put(slice(None), -np.inf),
    "one NaN": _put(1000, np.nan),
    "one +inf": _put(1000, np.inf),
}


@dataclass
class Passes:
    """The number of forward passes that were faulty."""

    faulty: int = 0


@contextmanager
def faulty(engine: str, fault: Fault, after: int = 0) -> Iterator[Passes]:
    """Let the shipped model of an engine return faulty logits.

    Args:
        engine: One of `ENGINES`.
        fault: Changes the logits.
        after: The number of forward passes before the first faulty one.
    """
    found, left = Passes(), after

    def is_faulty() -> bool:
        nonlocal left
        left -= 1
        found.faulty += left < 0
        return left < 0

    changed = {
        "transformers": _transformers,
        "mlx-lm": _mlx_lm,
        "llama.cpp": _llama_cpp,
        "onnxruntime-genai": _onnxruntime_genai,
    }
    with changed[engine](fault, is_faulty):
        yield found


@contextmanager
def _transformers(fault: Fault, is_faulty: Callable[[], bool]) -> Iterator[None]:
    def change(_module: Any, _args: Any, output: Any) -> Any:
        if is_faulty():
            output.logits = output.logits.clone()
            for row in output.logits.detach().reshape(-1, output.logits.shape[-1]).numpy():
                fault(row)
        return output

    hook = loaded("transformers")[0].register_forward_hook(change)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def _mlx_lm(fault: Fault, is_faulty: Callable[[], bool]) -> Iterator[None]:
    import mlx.core as mx

    kind: Any = type(loaded("mlx-lm")[0])
    whole = kind.__call__

    def changed(*args: Any, **options: Any) -> Any:
        output = whole(*args, **options)
        if not is_faulty():
            return output
        logits = np.array(output.astype(mx.float32))
        for row in logits.reshape(-1, logits.shape[-1]):
            fault(row)
        return mx.array(logits).astype(output.dtype)

    kind.__call__ = changed
    try:
        yield
    finally:
        kind.__call__ = whole


@contextmanager
def _llama_cpp(fault: Fault, is_faulty: Callable[[], bool]) -> Iterator[None]:
    import llama_cpp
    from llama_cpp import _internals

    llama = loaded("llama.cpp")[0]
    whole = _internals.LlamaContext.decode

    def changed(self: Any, batch: Any) -> None:
        whole(self, batch)
        if is_faulty():
            logits = llama_cpp.llama_get_logits_ith(self.ctx, -1)
            memory = ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))
            fault(np.ctypeslib.as_array(memory, (llama.n_vocab(),)))

    context: Any = _internals.LlamaContext
    context.decode = changed
    try:
        yield
    finally:
        context.decode = whole
        # Otherwise, a generation with the same prompt would begin with the faulty logits.
        llama.reset()


@contextmanager
def _onnxruntime_genai(fault: Fault, is_faulty: Callable[[], bool]) -> Iterator[None]:
    from onnxruntime_genai import Generator

    run, read = Generator.append_tokens, Generator.get_logits
    now = False

    def running(generator: Any, tokens: Any) -> None:
        nonlocal now
        run(generator, tokens)
        now = is_faulty()

    def changed(generator: Any) -> Any:
        logits = read(generator)
        if now:
            logits = logits.copy()
            for row in logits.reshape(-1, logits.shape[-1]):
                fault(row)
        return logits

    Generator.append_tokens, Generator.get_logits = running, changed
    try:
        yield
    finally:
        Generator.append_tokens, Generator.get_logits = run, read
