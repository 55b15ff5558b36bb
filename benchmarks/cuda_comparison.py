"""Processors of the registry on a CUDA device, compared with themselves on the CPU; no step may read a value on the host."""

from __future__ import annotations

import traceback
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

import logitkit as lk
from logitkit.protocol import leaves
from tests import continue_saved
from tests.batches import COLUMNS, MAX_LENGTH, Batch, Result, run, step
from tests.registry import Row

__all__ = ["DEVICE", "Difference", "compared"]

DEVICE = torch.device("cuda")
# How often a batch of the tests runs: the last time, its steps are replayed.
REPEATS = 4


class Difference(NamedTuple):
    """How far a row of the registry is from the CPU's results.

    Args:
        row: Its name, and the dtype.
        what: An error, or what differs.
    """

    row: str
    what: str


def on_device(batch: Batch, processor: lk.Processor[Any]) -> tuple[Any, list[Tensor]]:
    """Run a batch on the device, whose tables are there; no step reads a value on the host."""
    context = lk.Context.of(batch.prompts, COLUMNS, device=DEVICE, max_length=MAX_LENGTH)
    context = replace(context, stream_ids=None if batch.streams is None else torch.tensor(batch.streams, device=DEVICE))
    tokens, logits = batch.tokens.to(DEVICE), batch.logits.to(DEVICE)
    state = processor.init_state(context)
    torch.cuda.set_sync_debug_mode("error")
    try:
        state, first = processor.process_logits(state, logits[0].clone(), context)
        out = [first]
        for t in range(batch.steps):
            state = processor.advance(state, tokens[:, t])
            context = step(context, tokens[:, t])
            state, now = processor.process_logits(state, logits[t + 1].clone(), context)
            out.append(now)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return state, out


def compared(row: Row, dtype: torch.dtype) -> list[Difference]:
    """Compare a row of the registry on the device with itself on the CPU."""
    batch, name = continue_saved.batch(row, 0, dtype), f"{row.name}, {dtype}"
    wanted = run(row.processor, batch)
    try:
        # The first step brings tables to the device.
        context = lk.Context.of(batch.prompts, COLUMNS, device=DEVICE, max_length=MAX_LENGTH)
        row.processor.process_logits(row.processor.init_state(context), batch.logits[0].to(DEVICE), context)
        results = [on_device(batch, row.processor) for _ in range(REPEATS)]
    except RuntimeError as error:  # so torch says that the host reads a value; the other rows are compared too
        traceback.print_exc(limit=-3)
        return [Difference(name, f"{type(error).__name__}: {str(error)[:200]}")]
    return [difference for result in results for difference in differences_of(name, wanted, *result)]


def differences_of(name: str, wanted: Result, state: Any, logits: list[Tensor]) -> list[Difference]:
    """Compare the results of a batch with those of the CPU."""
    found = []
    for number, (expected, given) in enumerate(zip(wanted.logits, [one.cpu() for one in logits], strict=True)):
        if not torch.equal(expected.isneginf(), given.isneginf()):
            found.append(Difference(name, f"the mask of step {number}"))
        elif not torch.allclose(expected, given, equal_nan=True):
            worst = (expected.float() - given.float()).abs().nan_to_num(0).max()
            found.append(Difference(name, f"the logits of step {number}, by {worst:.3g}"))
    for expected, given in zip(leaves(wanted.state), leaves(state), strict=True):
        # The generation of a slot and sizes after the last value differ between runs, not between devices.
        if expected.shape != given.shape or not torch.allclose(expected, given.cpu()):
            found.append(Difference(name, f"the state, {tuple(expected.shape)}"))
    return found
