"""Support for `torch.compile`: a registry's tables are ready when a graph is traced, and do not move during the trace."""

from __future__ import annotations

import itertools
import sys
import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch

__all__ = ["prepare_trace", "traced_as", "tracing_waits"]


class Traced(Protocol):
    """An object with tables on devices, such as a registry."""

    def trace(self, device: torch.device) -> None:
        """From now on, keep the tables on a device up to date."""


_numbers = itertools.count()
_traced: weakref.WeakValueDictionary[str, Traced] = weakref.WeakValueDictionary()


def traced_as(registry: Traced) -> str:
    """Return a name by which a trace finds a registry, without keeping the registry alive.

    It is no integer: where a function is traced again for another registry, torch takes an integer that differs for a variable.
    """
    name = f"registry {next(_numbers)}"
    _traced[name] = registry
    return name


def prepare_trace(name: str, device: str) -> None:
    """Prepare the tables of a registry on a device."""
    _traced[name].trace(torch.device(device))


# Marked as constant, so that it runs only when a graph is traced. `torch.compiler.assume_constant_result` would set the same
# mark, but importing it loads the whole compiler, which takes 2 s.
prepare_trace._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001


def tracing_waits() -> AbstractContextManager[Any]:
    """Return a context manager that waits for a running trace to end and keeps other threads from tracing.

    A trace fails if tables that it has seen move before it ends. The lock belongs to torch's compiler; a version of torch
    without it still fails.
    """
    lock: AbstractContextManager[Any] | None = getattr(
        sys.modules.get("torch._dynamo.convert_frame"), "compile_lock", None
    )
    return nullcontext() if lock is None else lock
