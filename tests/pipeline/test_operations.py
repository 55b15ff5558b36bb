"""However many requests share a batch, a step takes the same operations on tensors: as many as there are kinds of processors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

import pytest
import torch

import logitkit as lk
from logitkit.batching import ORDER, BatchedRequests, NewRequest, steps_of
from tests.batches import COLUMNS, logits_of
from tests.pipeline.test_batch import CONFLICTS, WITH_STEPS
from tests.pipeline.test_entering import Counted
from tests.registry import vocabulary

FEW, MANY = 1, 8
# Requests have no second pass.
OF_REQUESTS = [kind for kind in ORDER if kind is not lk.Guidance]


# Chains alone end rows that have nothing left. Two schemes of watermarks permute the vocabulary of each row on the host.
PROCESSORS = [
    *(row.processor for row in WITH_STEPS if getattr(row.processor, "scheme", "hash") == "hash"),
    *(lk.from_config(config, vocabulary()) for config in CONFLICTS),
]


def batch_of(processors: Sequence[lk.Processor[Any]], times: int) -> BatchedRequests:
    """Return a batch with the given number of rows for each processor, with different prompts."""
    batch = BatchedRequests("cpu")
    requests = [NewRequest(one, [3 + number % 5, 4], [5]) for one in processors for number in range(times)]
    batch.arrange([*requests, None])
    return batch


def operations(processors: Sequence[lk.Processor[Any]], times: int) -> tuple[int, int]:
    """Count the operations of a step: to process the logits, and to take note of the tokens."""
    batch = batch_of(processors, times)
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        for step in range(2):  # the first makes tables
            logits = logits_of(step, (len(batch), COLUMNS), torch.float32).nan_to_num()
            processing, advancing = Counted(), Counted()
            with processing:
                batch.process_logits(logits)
            with advancing:
                batch.advance(torch.full((len(batch),), 6))
    return processing.count, advancing.count


@pytest.mark.parametrize("kind", OF_REQUESTS, ids=lambda kind: str(getattr(kind, "__name__", kind)))
def test_a_kind_takes_as_many_for_many_rows(kind: Any) -> None:
    processors = [one for one in PROCESSORS if kind in steps_of(one)]
    assert operations(processors, FEW) == operations(processors, MANY)


def test_all_kinds_together_take_as_many_for_many_rows() -> None:
    # Rows that remember items are stepped on the host, which may read their state again.
    on_device = [one for one in PROCESSORS if not any(getattr(step, "remembers", False) for step in steps_of(one))]
    assert operations(on_device, FEW) == operations(on_device, MANY)


def test_each_kind_is_called_once_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = batch_of(PROCESSORS, 2)
    calls: list[Any] = []
    for kind, step in batch.states.steps.items():
        original: Any = type(step.runs).process_logits

        def spy(self: Any, *arguments: Any, kind: Any = kind, original: Any = original) -> Any:
            calls.append(kind)
            return original(self, *arguments)

        monkeypatch.setattr(type(step.runs), "process_logits", spy)
    batch.process_logits(logits_of(0, (len(batch), COLUMNS), torch.float32).nan_to_num())
    assert calls == OF_REQUESTS
