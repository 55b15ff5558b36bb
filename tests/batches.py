"""Batches for the tests of all processors: prompts, tokens and logits, drawn by hypothesis."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest import mock

import torch
from hypothesis import strategies as st
from torch import Tensor

import logitkit as lk
from logitkit.protocol import leaves
from logitkit.protocol.processor import reads_guidance
from tests.registry import Row

COLUMNS = 72
MAX_LENGTH = 64
DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@dataclass(frozen=True)
class Batch:
    """Rows to run a processor on.

    Args:
        prompts: The prompt of each row.
        tokens: [B, T] int64, -1 = none: what is committed, one column after the other.
        logits: [T + 1, B, COLUMNS]: of each step, before the first token and after each.
        streams: The random stream of each row, or None for its number.
    """

    prompts: list[list[int]]
    tokens: Tensor
    logits: Tensor = field(repr=False)
    streams: list[int] | None = None

    @property
    def steps(self) -> int:
        return self.tokens.shape[1]

    def context(self) -> lk.Context:
        """The context before the first token."""
        context = lk.Context.of(self.prompts, COLUMNS, max_length=MAX_LENGTH)
        return replace(context, stream_ids=None if self.streams is None else torch.tensor(self.streams))

    def select(self, rows: Sequence[int]) -> Batch:
        """The batch of some rows; rows may repeat."""
        streams = [r if self.streams is None else self.streams[r] for r in rows]
        return Batch([self.prompts[r] for r in rows], self.tokens[list(rows)], self.logits[:, list(rows)], streams)


@dataclass(frozen=True)
class Result:
    """The result of a run: the state after all tokens, and the logits of every step."""

    state: Any
    logits: list[Tensor]


def step(context: lk.Context, tokens: Tensor) -> lk.Context:
    """Return the context after a column of tokens."""
    return replace(context, lengths=context.lengths + (tokens >= 0))


def with_guidance(processor: lk.Processor[Any], context: lk.Context, logits: Tensor) -> lk.Context:
    """Return the context of a step with logits of a second pass, if the processor reads them.

    They are a function of the logits of each row, so rows may be selected and batches joined: the same in reverse.
    """
    return replace(context, guidance_logits=logits.flip(1)) if reads_guidance(processor) else context


def processed(processor: lk.Processor[Any], state: Any, logits: Tensor, context: lk.Context) -> tuple[Any, Tensor]:
    """Return the result of `process_logits`, with logits of a second pass if the processor reads them."""
    return processor.process_logits(state, logits, with_guidance(processor, context, logits))


def run(processor: lk.Processor[Any], batch: Batch, state: Any = None, context: lk.Context | None = None) -> Result:
    """Run a batch step by step, from the prompt or from a state."""
    context = batch.context() if context is None else context
    state = processor.init_state(context) if state is None else state
    state, first = processed(processor, state, batch.logits[0].clone(), context)
    out = [first]
    for t in range(batch.steps):
        state = processor.advance(state, batch.tokens[:, t])
        context = step(context, batch.tokens[:, t])
        state, now = processed(processor, state, batch.logits[t + 1].clone(), context)
        out.append(now)
    return Result(state, out)


def same_bits(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors agree in dtype, shape and values; NaN equals nothing."""
    return a.dtype == b.dtype and torch.equal(a, b)


def same_state(a: Any, b: Any) -> bool:
    """Whether two states mean the same: sizes of trailing dimensions may differ by fill values."""
    if type(a) is not type(b):
        return False
    both = leaves(lk.concatenate([a, b]))
    return all(same_bits(*leaf.chunk(2)) for leaf in both)


def same_logits(a: Sequence[Tensor], b: Sequence[Tensor]) -> bool:
    """Whether the logits of all steps agree."""
    return all(same_bits(x, y) for x, y in zip(a, b, strict=True))


def same_result(a: Result, b: Result) -> bool:
    """Whether two runs gave the same."""
    return same_state(a.state, b.state) and same_logits(a.logits, b.logits)


def logits_of(seed: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return logits of all sizes, among them zeros, the greatest and least finite numbers, and infinities."""
    rng = torch.Generator().manual_seed(seed)
    ordinary = torch.randn(*shape, generator=rng, dtype=torch.float32) * 8
    most = torch.finfo(dtype).max
    odd = torch.tensor([0.0, -0.0, most, -most, float("inf"), float("-inf"), torch.finfo(dtype).tiny, 1e-3])
    which = torch.randint(0, 4 * len(odd), tuple(shape), generator=rng)
    return torch.where(which < len(odd), odd[which % len(odd)], ordinary).to(dtype)


def sound_logits(seed: int, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return logits of all sizes that an engine may pass: those of `logits_of` without +inf."""
    logits = logits_of(seed, shape, dtype)
    return torch.where(logits == torch.inf, 1.0, logits)


def joined(parts: Sequence[tuple[Row, Batch]]) -> tuple[Batch, Any, lk.Context]:
    """Join the batches of several rows of the registry; return the batch, its state and its context before the first token."""
    contexts = [batch.context() for _, batch in parts]
    starts = [row.processor.init_state(context) for (row, _), context in zip(parts, contexts, strict=True)]
    together = Batch(
        [prompt for _, batch in parts for prompt in batch.prompts],
        torch.cat([batch.tokens for _, batch in parts]),
        torch.cat([batch.logits for _, batch in parts], 1),
    )
    return together, lk.concatenate(starts), lk.concatenate_context(contexts)


@contextmanager
def tensor_path() -> Iterator[None]:
    """Run processors by tensors, as on an accelerator and in compiled graphs."""
    with mock.patch.object(torch.compiler, "is_compiling", return_value=True):
        yield


@st.composite
def batches(draw: st.DrawFn, row: Row, dtype: torch.dtype | None = None, steps: int | None = None) -> Batch:
    """Batches of one to four rows: legal runs, then anything, with gaps, in any dtype.

    Hypothesis draws the sizes, which it can shrink, and one seed for the tokens. Drawing each token would take most of the time.
    """
    dtype = draw(st.sampled_from(DTYPES)) if dtype is None else dtype
    count = draw(st.integers(1, 4))
    length = draw(st.integers(0, 7)) if steps is None else steps
    chance = random.Random(draw(st.integers(0, 2**32)))
    # From a small choice of tokens, many repeat.
    ids = chance.choices(range(COLUMNS), k=chance.choice((1, 3, 8, 4 * COLUMNS)))
    prompts = [chance.choices(ids, k=chance.randint(0, 6)) for _ in range(count)]
    columns = []
    for _ in range(count):
        legal = list(chance.choice(row.runs))
        legal = legal[: chance.randint(0, len(legal))]
        line = (legal + chance.choices(ids, k=chance.randint(0, length)))[:length]
        for _ in range(length - len(line)):
            line.insert(chance.randint(0, len(line)), -1)
        columns.append(line)
    tokens = torch.tensor(columns, dtype=torch.int64).reshape(count, length)
    logits = logits_of(chance.getrandbits(32), (length + 1, count, COLUMNS), dtype)
    return Batch(prompts, tokens, logits)
