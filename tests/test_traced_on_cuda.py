"""Every processor on a CUDA device, with fake tensors: all its tensors stay there, and the host reads none of their values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException

import logitkit as lk
from logitkit.composition import EngineLogits
from logitkit.errors import ProcessorError
from tests.batches import processed, with_guidance
from tests.examples import CI
from tests.fake_cuda import CopiedToDevice, NoCopies, fake_cuda
from tests.registry import EOS, PAD, ROWS, TOKENS, Row

COLUMNS = 72
# Equal vocabularies share a registry, which keeps its tables on each device. Once other tests have traced it, it writes them when
# a processor is registered: here as fake tensors, on which later tests would fail. So this vocabulary must differ from theirs.
VOCABULARY = lk.Vocabulary(TOKENS, eos_ids=[EOS], size=COLUMNS, pad_id=PAD, special={"<s>": 0, "</s>": EOS})
ON_DEVICE = [row for row in ROWS if not row.on_host]
# One row of each class in each kind: another configuration seldom takes another path.
ONE_OF_EACH = list({(row.kind, type(row.processor)): row for row in reversed(ON_DEVICE)}.values())


def leaves(state: Any) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else [leaf for part in state for leaf in leaves(part)]


@pytest.mark.parametrize("row", ON_DEVICE if CI else ONE_OF_EACH, ids=str)
def test_a_step_reads_nothing_on_the_host(row: Row) -> None:
    processor = row.make(VOCABULARY)
    with fake_cuda() as device:
        # With a maximum length the room for a history is there from the start; without one the host reads how long rows are.
        context = lk.Context.of([[1, 2], [3]], vocabulary_size=COLUMNS, device=device, max_length=64)
        state = processor.init_state(context)
        # The first step brings tables to the device; no later one may wait for the host.
        processed(processor, state, torch.zeros(2, COLUMNS, device=device), context)
        with NoCopies():
            for shape in ((2,), (2, 3)):
                state = processor.advance(state, torch.zeros(shape, dtype=torch.int64, device=device))
                state, logits = processed(processor, state, torch.zeros(2, COLUMNS, device=device), context)
        assert {leaf.device.type for leaf in (logits, *leaves(state))} == {"cuda"}


@pytest.mark.parametrize("row", ON_DEVICE if CI else ONE_OF_EACH, ids=str)
def test_broken_logits_are_noticed_without_reading_any(row: Row) -> None:
    processor = row.make(VOCABULARY)
    process = EngineLogits(processor, guided=True)
    with fake_cuda() as device:
        context = lk.Context.of([[1, 2], [3]], vocabulary_size=COLUMNS, device=device, max_length=64)
        state = processor.init_state(context)
        context = with_guidance(processor, context, torch.zeros(2, COLUMNS, device=device))
        process(state, torch.zeros(2, COLUMNS, device=device), context, [EOS])
        with NoCopies():
            logits = process(state, torch.zeros(2, COLUMNS, device=device), context, [EOS])
        assert process.broken is not None
        assert {logits.device.type, process.broken.device.type} == {"cuda"}
        with pytest.raises(DataDependentOutputException):
            process.raise_broken()


@pytest.mark.parametrize("row", [row for row in ROWS if row.on_host], ids=str)
def test_a_step_on_the_host_says_so(row: Row) -> None:
    processor = row.make(VOCABULARY)
    with fake_cuda() as device:
        context = lk.Context.of([[1, 2]], vocabulary_size=COLUMNS, device=device)
        state = processor.init_state(context)
        with pytest.raises(ProcessorError, match="cannot be part of a compiled graph"):
            processed(processor, state, torch.zeros(1, COLUMNS, device=device), context)
        if isinstance(processor, lk.JsonSchema):
            with pytest.raises(ProcessorError, match=r"'uniqueItems'.*cannot be part of a compiled graph"):
                processor.advance(state, torch.zeros(1, dtype=torch.int64, device=device))


def test_reading_a_value_is_noticed() -> None:
    reads = lk.Stateless(lambda logits, context: logits * logits.sum().item())
    with fake_cuda() as device:
        context, logits = lk.Context.of([[1]], vocabulary_size=2, device=device), torch.zeros(1, 2, device=device)
        with pytest.raises(DataDependentOutputException):
            reads.process_logits((), logits, context)


def test_copying_a_value_is_noticed() -> None:
    ends = [1]
    for copies in (
        lambda logits: logits.index_fill(1, torch.tensor(ends, device=logits.device), 0),
        lambda logits: logits + torch.zeros(2).to(logits.device),
    ):
        with fake_cuda() as device, NoCopies():
            logits = torch.zeros(1, 2, device=device)
            with pytest.raises(CopiedToDevice):
                copies(logits)
