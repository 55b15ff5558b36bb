"""A step waits for a device once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import logitkit as lk
from logitkit.tracking import Shown, Tracker, histories


class HostReads(TorchDispatchMode):
    """Count what would wait for a device: values that leave it."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (torch.ops.aten.equal.default, torch.ops.aten._local_scalar_dense.default):
            self.count += 1
        return func(*args, **(kwargs or {}))


def refuse(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError(f"the fast path calls Tensor.{name}, which waits for a device")

    return call


def test_a_step_reads_one_scalar_from_a_device(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if place == "host":
        # There a step reads none through torch: the ids are a numpy view.
        allowed = 0
    else:
        allowed = 1
        # As on a device, ids have no view for numpy.
        monkeypatch.setattr(histories, "Shown", OnDevice)
    hook: Tracker[Any] = Tracker(lk.Stateless(lambda logits, context: logits))
    ids = torch.randint(0, 9, (4, 300), generator=torch.Generator().manual_seed(1))
    hook.resolve(ids[:, :200], vocabulary_size=9)
    if place == "device":
        for name in ("cpu", "tolist", "numpy", "item"):
            monkeypatch.setattr(Tensor, name, refuse(name))
    for length in range(201, 301):
        with HostReads() as reads:
            hook.resolve(ids[:, :length], vocabulary_size=9)
        assert reads.count == allowed


class OnDevice(Shown):
    """The ids of a call, out of numpy's reach."""

    __slots__ = ()

    def __init__(self, ids: Tensor) -> None:
        self.ids, self.array = ids, None
        self.rows, self.length = ids.shape
