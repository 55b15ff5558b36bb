"""A request that comes back with all that it has said is replayed at once, and not token by token."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from logitkit.batching import BatchedRequests, NewRequest, steps_of
from tests.pipeline.test_batch import WITH_STEPS
from tests.rows.row import TEXT, Row

SHORT, LONG = 30, 3000


class Counted(TorchDispatchMode):
    """Counts operations on tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.count: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def output(row: Row, length: int) -> list[int]:
    return [token for run in (*row.runs, *TEXT) for token in run] * length


def operations(row: Row, length: int) -> int:
    batch = BatchedRequests("cpu")
    said = output(row, length)[:length]
    counted = Counted()
    with counted:
        batch.arrange([NewRequest(row.processor, [3], said), NewRequest(row.processor, [4, 5], said[1:])])
    return counted.count


@pytest.mark.parametrize("row", WITH_STEPS, ids=str)
def test_a_hundred_times_the_tokens_take_no_more_operations(row: Row) -> None:
    operations(row, SHORT)  # tables that are made once
    assert operations(row, LONG) <= operations(row, SHORT) + 8


@pytest.mark.parametrize("row", WITH_STEPS, ids=str)
def test_each_step_is_advanced_once(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[type, torch.Size]] = []
    # Where it is written: a language with another one shares no batch.
    steps = steps_of(row.processor).values()
    kinds: set[Any] = {next(base for base in type(step).__mro__ if "advance" in vars(base)) for step in steps}
    for kind in kinds:

        def spy(self: Any, state: Any, tokens: torch.Tensor, original: Any = kind.advance) -> Any:
            calls.append((type(self), tokens.shape))
            return original(self, state, tokens)

        monkeypatch.setattr(kind, "advance", spy)
    said = output(row, SHORT)[:SHORT]
    BatchedRequests("cpu").arrange([NewRequest(row.processor, [3], said), NewRequest(row.processor, [4, 5], said[1:])])
    of_the_steps = [(type(step), torch.Size([2, SHORT])) for step in steps_of(row.processor).values()]
    assert sorted(map(str, calls)) == sorted(map(str, of_the_steps))
