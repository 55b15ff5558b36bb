"""The oracle of replay: a plain loop that samples step by step, and measures by brute force what replay must find."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

import logitkit as lk
from logitkit.protocol import role_of
from tests.batches import tensor_path
from tests.registry import EOS, PAD

COLUMNS = 72


@dataclass
class Sampled:
    """Rows that a loop sampled.

    Args:
        prompts: The prompt of each row.
        outputs: [B, T] int64, -1 at padding.
        logits: [B, T, COLUMNS], those of the model.
        log_probs: [B, T], of each token after the processors; 0 at padding.
        forced: [B, T] bool.
        log_mass: [B, T], of what constraints kept.
        kept: [B, T, W] int32.
        limits: The maximum length of each row.
    """

    prompts: list[list[int]]
    outputs: Tensor
    logits: Tensor
    log_probs: Tensor
    forced: Tensor
    log_mass: Tensor
    kept: Tensor
    limits: list[int]
    streams: list[int] = field(default_factory=list)


def context_of(prompts: list[list[int]], limits: list[int], streams: list[int]) -> lk.Context:
    context = lk.Context.of(prompts, COLUMNS, max_length=max(limits))
    return replace(context, max_lengths=torch.tensor(limits), stream_ids=torch.tensor(streams))


def sample(processor: Any, seed: int, rows: int = 3, steps: int = 9, dtype: torch.dtype = torch.float32) -> Sampled:
    """Sample rows from random logits, one step after the other; each ends after an EOS."""
    chance, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    logits = (torch.randn(rows, steps, COLUMNS, generator=generator) * 3).to(dtype)
    prompts = [[chance.randrange(3, 40) for _ in range(chance.randint(0, 4))] for _ in range(rows)]
    limits = [len(prompt) + steps for prompt in prompts]
    streams = [chance.randrange(1000) for _ in prompts]
    context = context_of(prompts, limits, streams)
    state, over = processor.init_state(context), [False] * rows
    found = Sampled(
        prompts,
        torch.full((rows, steps), -1),
        logits,
        *(torch.zeros(rows, steps, dtype=torch.float64), torch.zeros(rows, steps, dtype=torch.bool)),
        torch.zeros(rows, steps, dtype=torch.float64),
        torch.zeros(rows, steps, 3, dtype=torch.int32),
        limits,
        streams,
    )
    for step in range(steps):
        given = logits[:, step].float() if dtype.itemsize == 2 else logits[:, step]
        _, made = processor.process_logits(state, given.clone(), context)
        mass = log_mass_of(processor, state, given, context)
        found.kept[:, step] = lk.training.kept(given, made)
        for row in range(rows):
            if over[row]:
                continue
            legal = (made[row] > -torch.inf).nonzero()[:, 0].tolist()
            # If one logit is close to the greatest number and another to the least, the probability of the second is 0.
            possible = (made[row].log_softmax(0) > -torch.inf).nonzero()[:, 0].tolist()
            token = EOS if EOS in possible and chance.random() < 0.1 else chance.choice(possible)
            found.outputs[row, step] = token
            found.log_probs[row, step] = made[row].double().log_softmax(0)[token]
            found.forced[row, step] = len(legal) == 1
            found.log_mass[row, step] = mass[row]
            over[row] = token in (EOS, PAD)
        state = processor.advance(state, found.outputs[:, step])
        context = context.at(context.lengths + (found.outputs[:, step] >= 0))
    return found


def log_mass_of(processor: Any, state: Any, logits: Tensor, context: lk.Context) -> Tensor:
    """Return the logarithm of the mass that constraints kept, [B], each run of neighbours of the logits that entered it."""
    links = [(processor, state)]
    if isinstance(processor, lk.Chain):
        links = [*zip(processor.processors, state, strict=True)]
    shown, total, run = logits.clone(), torch.zeros(len(logits), dtype=torch.float64), None
    for place, (one, own) in enumerate(links):
        if role_of(one) is lk.Role.CONSTRAINT:
            run = shown.clone() if run is None else run
        elif run is not None:
            total, run = total + masked_mass(run, shown), None
        shown = one.process_logits(own, shown, context)[1]
        if isinstance(processor, lk.Chain) and place == processor._ending:
            for line in shown:
                if not (line > -torch.inf).any():
                    line[list(processor.known_eos_ids)] = 0
    return total if run is None else total + masked_mass(run, shown)


def masked_mass(before: Tensor, after: Tensor) -> Tensor:
    found = []
    for line, left in zip(before.double(), after > -torch.inf, strict=True):
        # Where earlier processors have left nothing, there is nothing to keep.
        found.append(line.log_softmax(0)[left].logsumexp(0) if (line > -torch.inf).any() else line.new_zeros(()))
    return torch.stack(found)


def derivatives(processor: Any, sampled: Sampled, *, exact: bool) -> Iterator[tuple[int, int, Tensor]]:
    """Yield for each row and step the derivative of the token's log-probability by each logit, [COLUMNS], in a loop over steps.

    Each column is moved in a row of its own, all from the same state. So nothing is assumed of a processor.

    Args:
        processor: The processor.
        sampled: The rows that it sampled, in 64 bits.
        exact: Whether torch differentiates the operations on tensors, forward; otherwise, central differences are taken.
    """
    context = context_of(sampled.prompts, sampled.limits, sampled.streams)
    state = processor.init_state(context)
    for step in range(sampled.outputs.shape[1]):
        real = (sampled.outputs[:, step] >= 0).nonzero()[:, 0]
        rows = real.repeat_interleave(COLUMNS)
        tokens, lines = sampled.outputs[rows, step], sampled.logits[rows, step]
        moved = torch.eye(COLUMNS, dtype=torch.float64).repeat(len(real), 1)
        own = processor, lk.select(state, rows), lk.select_context(context, rows)
        found = (tangents if exact else differences)(*own, lines, moved, tokens)
        for row, line in zip(real.tolist(), found.reshape(-1, COLUMNS), strict=True):
            yield row, step, line
        state = processor.advance(state, sampled.outputs[:, step])
        context = context.at(context.lengths + (sampled.outputs[:, step] >= 0))


def log_probs_at(processor: Any, state: Any, context: lk.Context, logits: Tensor, tokens: Tensor) -> Tensor:
    _, made = processor.process_logits(state, logits, context)
    found: Tensor = made.log_softmax(1).gather(1, tokens[:, None])[:, 0]
    return found


def tangents(processor: Any, state: Any, context: lk.Context, logits: Tensor, moved: Tensor, tokens: Tensor) -> Tensor:
    # By tensors, as on an accelerator: numpy knows no dual numbers.
    with forward_ad.dual_level(), tensor_path():
        dual = forward_ad.make_dual(logits.clone(), moved)
        found = forward_ad.unpack_dual(log_probs_at(processor, state, context, dual, tokens)).tangent
    return torch.zeros_like(logits[:, 0]) if found is None else found


def differences(
    processor: Any, state: Any, context: lk.Context, logits: Tensor, moved: Tensor, tokens: Tensor
) -> Tensor:
    h = 1e-6
    up, down = (log_probs_at(processor, state, context, logits + by * moved, tokens) for by in (h, -h))
    return (up - down) / (2 * h)


def replay_of(processor: Any, sampled: Sampled, logits: Tensor | None = None, **options: Any) -> Any:
    """Replay what was sampled."""
    given = sampled.logits if logits is None else logits
    limits = {"max_lengths": sampled.limits, "stream_ids": sampled.streams}
    return lk.training.replay(processor, sampled.prompts, sampled.outputs, given, **{**limits, **options})
