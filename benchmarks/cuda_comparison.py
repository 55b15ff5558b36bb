"""Processors on a CUDA device, compared with themselves on the CPU, and kernels with tensor operations.

Every processor of the registry runs the batches of the tests on the device and on the CPU. No step may read a value on the host.
Those that have kernels also run captured in a CUDA graph, with all their tokens at once. Random walks then compare the kernel of
constraints with the tensor operations, bit by bit, on the device.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import get_context
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

import logitkit as lk
from logitkit.kernels.kernel import Kernel
from logitkit.protocol import leaves
from tests import continue_saved
from tests.batches import COLUMNS, MAX_LENGTH, Batch, Result, processed, run, step
from tests.kernels.compiling import Variant, compiled, recorded
from tests.kernels.walks import DTYPES, Walk, batches
from tests.registry import ROWS, Row, vocabulary

__all__ = ["DEVICE", "Difference", "captured", "compared", "compile_ahead", "counted_launches", "walked"]

DEVICE = torch.device("cuda")


class Difference(NamedTuple):
    """How far a row of the registry is from the CPU's results.

    Args:
        row: Its name, and the dtype.
        what: An error, or what differs.
    """

    row: str
    what: str


@contextmanager
def counted_launches() -> Iterator[Counter[str]]:
    """Count the launches of kernels, by name; a refused one counts as `refused`."""
    found: Counter[str] = Counter()
    launch = Kernel.launch

    def counted(self: Kernel, *arguments: Any, **options: Any) -> bool:
        started = launch(self, *arguments, **options)
        found[self.name if started else "refused"] += 1
        return started

    with mock.patch.object(Kernel, "launch", counted):
        yield found


def captured(function: Callable[[], Any], times: int = 1) -> tuple[torch.cuda.CUDAGraph, Any]:
    """Return a CUDA graph of some calls of a function, which runs before to compile what it needs, and the last result."""
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(times):
            result = function()
    return graph, result


def context_on(batch: Batch) -> lk.Context:
    """Return the context of a batch on the device, before the first token."""
    context = lk.Context.of(batch.prompts, COLUMNS, device=DEVICE, max_length=MAX_LENGTH)
    return replace(context, stream_ids=None if batch.streams is None else torch.tensor(batch.streams, device=DEVICE))


def on_device(batch: Batch, processor: lk.Processor[Any]) -> tuple[Any, list[Tensor]]:
    """Run a batch on the device, whose tables are there; no step reads a value on the host."""
    context, tokens, logits = context_on(batch), batch.tokens.to(DEVICE), batch.logits.to(DEVICE)
    state = processor.init_state(context)
    torch.cuda.set_sync_debug_mode("error")
    try:
        state, first = processed(processor, state, logits[0].clone(), context)
        out = [first]
        for t in range(batch.steps):
            state = processor.advance(state, tokens[:, t])
            context = step(context, tokens[:, t])
            state, now = processed(processor, state, logits[t + 1].clone(), context)
            out.append(now)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return state, out


def replayed(batch: Batch, processor: lk.Processor[Any]) -> tuple[Any, Tensor]:
    """Advance through all tokens at once and mask the last logits, as a CUDA graph."""
    context, tokens, given = context_on(batch), batch.tokens.to(DEVICE), batch.logits[-1].to(DEVICE)
    state, logits = processor.init_state(context), torch.empty_like(given)

    def whole() -> tuple[Any, Tensor]:
        after = processor.advance(state, tokens)
        return after, processed(processor, after, logits.copy_(given), context)[1]

    graph, (after, found) = captured(whole)
    graph.replay()
    return after, found


def compared(row: Row, dtype: torch.dtype, has_kernels: bool) -> list[Difference]:
    """Compare a row of the registry on the device with itself on the CPU."""
    batch, name = continue_saved.batch(row, 0, dtype), f"{row.name}, {dtype}"
    wanted = run(row.processor, batch)
    try:
        # The first step brings tables to the device.
        context = lk.Context.of(batch.prompts, COLUMNS, device=DEVICE, max_length=MAX_LENGTH)
        processed(row.processor, row.processor.init_state(context), batch.logits[0].to(DEVICE), context)
        found = differences_of(name, wanted.logits, wanted, *on_device(batch, row.processor))
        if has_kernels:
            state, logits = replayed(batch, row.processor)
            found += differences_of(f"{name}, as a graph", wanted.logits[-1:], wanted, state, [logits])
    except RuntimeError as error:  # so torch says that the host reads a value; the other rows are compared too
        traceback.print_exc(limit=-3)
        return [Difference(name, f"{type(error).__name__}: {str(error)[:200]}")]
    return found


def differences_of(
    name: str, expected: list[Tensor], wanted: Result, state: Any, logits: list[Tensor]
) -> list[Difference]:
    """Compare the results of a batch with those of the CPU."""
    found = []
    for number, (one, given) in enumerate(zip(expected, [each.cpu() for each in logits], strict=True)):
        if not torch.equal(one.isneginf(), given.isneginf()):
            found.append(Difference(name, f"the mask of step {number}"))
        elif not torch.allclose(one, given, equal_nan=True):
            worst = (one.float() - given.float()).abs().nan_to_num(0).max()
            found.append(Difference(name, f"the logits of step {number}, by {worst:.3g}"))
    for one, given in zip(leaves(wanted.state), leaves(state), strict=True):
        # The generation of a slot and sizes after the last value differ between runs, not between devices.
        if one.shape != given.shape or not torch.allclose(one, given.cpu()):
            found.append(Difference(name, f"the state, {tuple(one.shape)}"))
    return found


def walked(seconds: float, vocabularies: list[lk.Vocabulary]) -> tuple[Counter[str], list[Difference]]:
    """Walk at random for some time, and return the rows that were compared, by what they were, and the differences."""
    seen: Counter[str] = Counter()
    found: list[Difference] = []
    end, seed = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for v in vocabularies:
            for name, processors in batches(v).items():
                chance, seed = random.Random(seed), seed + 1
                try:
                    Walk.start(processors, chance, 40, DEVICE).go(chance, 12, 8, seen)
                except AssertionError as error:
                    found.append(Difference(f"walk {seed - 1}, {name}", str(error)[:400]))
    return seen, found


def needed() -> list[Variant]:
    """Return the variants of kernels that the registry and the walks need, without a GPU."""
    found: dict[Any, Variant] = {}
    with recorded() as launches:
        for row in ROWS:
            batch = continue_saved.batch(row, 0)
            for dtype in DTYPES:
                before = len(launches)
                context = batch.context()
                state = row.processor.advance(row.processor.init_state(context), batch.tokens)
                processed(row.processor, state, torch.zeros(len(batch.prompts), COLUMNS, dtype=dtype), context)
                if len(launches) == before:
                    break
        for processors in batches(vocabulary()).values():
            walk = Walk.start(processors, random.Random(0), 2, torch.device("cpu"))
            count = len(walk.rows.slot)
            for dtype in DTYPES:
                for logits in (torch.zeros(count, COLUMNS, dtype=dtype), torch.zeros(COLUMNS, count, dtype=dtype).T):
                    walk.by_kernel(None, logits)
                    walk.by_kernel(torch.zeros(count, dtype=torch.int64), logits)
    for one in launches:
        found[one.kernel.name, one.constants, one.types] = one
    return list(found.values())


def compile_ahead(processes: int) -> str:
    """Compile what the comparison needs in some processes, into Triton's cache on disk, and say how long that took.

    The processes are forks, which do not use the device.
    """
    global _variants, _capability  # noqa: PLW0603 - kernels cannot be pickled, and forks see what was there before
    begin = time.monotonic()
    _variants, (major, minor) = needed(), torch.cuda.get_device_capability()
    _capability = 10 * major + minor
    with ProcessPoolExecutor(processes, mp_context=get_context("fork")) as pool:
        failed = [name for name in pool.map(_compile, range(len(_variants))) if name]
    return f"{len(_variants)} variants in {time.monotonic() - begin:.0f} s; failed: {failed}"


_variants: list[Variant] = []
_capability = 0


def _compile(number: int) -> str:
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.driver import CudaLauncher

    try:
        made = compiled(_variants[number], GPUTarget("cuda", _capability, 32))
        # The code of the host that starts it is compiled too.
        CudaLauncher(made.src, made.metadata)
    except Exception as error:  # noqa: BLE001 - the first launch will say so
        return f"{_variants[number].kernel.name}: {error}"
    return ""
