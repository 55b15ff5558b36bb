"""What a graph of `torch.compile` needs of a bank: its tables ready when it is traced, and in their place meanwhile."""

from __future__ import annotations

import itertools
import sys
import weakref
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch

__all__ = ["prepare_trace", "traced_as", "tracing_waits"]


class Traced(Protocol):
    """What has tables."""

    def trace(self, device: torch.device) -> None:
        """Have the tables ready from now on."""


_numbers = itertools.count()
_traced: weakref.WeakValueDictionary[int, Traced] = weakref.WeakValueDictionary()


def traced_as(bank: Traced) -> int:
    """Return the number by which a graph finds a bank when it is traced; the bank is not kept alive."""
    number = next(_numbers)
    _traced[number] = bank
    return number


def prepare_trace(number: int, device: str) -> None:
    """Have the tables of a bank ready on a device."""
    _traced[number].trace(torch.device(device))


# Its result being constant, it is called when a graph is traced, and no more. The mark is what
# `torch.compiler.assume_constant_result` sets; calling that would import the whole compiler, 2 s, with this module.
prepare_trace._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001


def tracing_waits() -> AbstractContextManager[Any]:
    """Return what keeps other threads from tracing, once the trace that one of them is at has ended.

    A trace fails if tables that it has seen are in another place when it ends. The lock is the compiler's own; a version of torch
    without it fails as before.
    """
    lock: AbstractContextManager[Any] | None = getattr(
        sys.modules.get("torch._dynamo.convert_frame"), "compile_lock", None
    )
    return nullcontext() if lock is None else lock
