"""Exclude top choices: now and then, none of the likely tokens but the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Integer, Number
from logitkit.protocol.calls import by_tensors, check_tokens, count_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.runtime.host_logits import HostRow, host_rows
from logitkit.sampling.counter_random import uniform_rows, uniform_tensors
from logitkit.sampling.scores import remove, scores_of

__all__ = ["Xtc", "XtcState"]

PROBABILITY = Number(0, 1, "0 changes nothing")
THRESHOLD = Number(0, 1, "above 0.5 nothing changes")

# Above it, no two tokens can be likely at once.
HALF = 0.5


class XtcState(NamedTuple):
    """What each row takes for likely, and which random numbers are its own.

    Args:
        probability: [B] float64, from 0 to 1; 0 changes nothing.
        threshold: [B] float64, from 0 to 1.
        seed: [B] int64.
        stream: [B] int64.
        position: [B] int64, tokens so far, the prompt's among them.
    """

    probability: Annotated[Tensor, PROBABILITY]
    threshold: Annotated[Tensor, THRESHOLD]
    seed: Tensor
    stream: Tensor
    position: Annotated[Tensor, Integer(0, 2**63 - 1)]


@dataclass(frozen=True)
class Xtc(Described):
    """With a given probability, set the tokens that are likely to -inf, but for the least likely of them.

    Where likely ones tie for the least, the one with the greatest id stays. No token is exempt: a line break or EOS may go too.
    The random numbers are a function of the seed, the row's stream (see `Context.stream_ids`) and the number of its tokens: a
    replay gives the same, and rows of one prompt differ.

    Args:
        probability: How often this happens, from 0 (never) to 1.
        threshold: Which probability of a token is likely, from 0 to 1; above 0.5 nothing changes.
        seed: From 0 to 2**63 - 1.

    Raises:
        ConfigurationError: An argument is not of its range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> daring = lk.Xtc(probability=1.0, threshold=0.15)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> logits = torch.tensor([[0.4, 0.1, 0.2, 0.3]]).log()
        >>> daring.process_logits(daring.init_state(context), logits, context)[1].exp()
        tensor([[0.0000, 0.1000, 0.2000, 0.0000]])

    Source: p-e-w, Exclude Top Choices (XTC) (2024); results are those of llama.cpp where it removes anything, with other random
    numbers.
    """

    probability: float
    threshold: float = 0.1
    seed: int = 0

    role = Role.TRUNCATION
    kind = Kind(
        "xtc",
        {"probability": PROBABILITY, "threshold": THRESHOLD, "seed": Integer(0, 2**63 - 1)},
        main="probability",
        order=60,
        neutral={"probability": 0.0},
    )
    may_empty_rows = False

    def init_state(self, context: Context) -> XtcState:
        """Return the state of rows that have their prompt."""
        rows, device = context.batch_size, context.device
        return XtcState(
            torch.full((rows,), self.probability, dtype=torch.float64, device=device),
            torch.full((rows,), self.threshold, dtype=torch.float64, device=device),
            torch.full((rows,), self.seed, dtype=torch.int64, device=device),
            context.streams.clone(),
            context.lengths.clone(),
        )

    def advance(self, state: XtcState, tokens: Tensor) -> XtcState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("Xtc", state.position.shape[0], tokens)
        return state._replace(position=state.position + count_tokens(tokens))

    def process_logits(self, state: XtcState, logits: Tensor, context: Context) -> tuple[XtcState, Tensor]:
        """Remove the likely tokens, in place on the CPU, in rows whose random number says so."""
        logits = own_rows("Xtc", state.position.shape[0], logits)
        where = (state.seed, state.stream, state.position)
        if by_tensors(logits):
            happens = (uniform_tensors(*where) < state.probability) & (state.threshold <= HALF)
            return state, _by_tensors(state.threshold, happens, logits)
        active = (uniform_rows(*where) < state.probability.numpy()) & (state.threshold.numpy() <= HALF)
        thresholds = state.threshold.tolist()
        for number, row in host_rows(logits, active.tolist()):
            row.line[_likely(row, thresholds[number])] = row.never
        return state, logits


def _by_tensors(threshold: Tensor, happens: Tensor, logits: Tensor) -> Tensor:
    scores = scores_of(logits)
    chance = scores.softmax(1)
    likely = (chance >= threshold.to(chance.dtype)[:, None]) & (scores > -torch.inf)
    least = torch.where(likely, scores, torch.inf).amin(1, keepdim=True)
    number = torch.arange(scores.shape[1], device=scores.device)
    stays = torch.where(likely & (scores == least), number, -1).amax(1, keepdim=True)
    return remove(logits, likely & (number != stays), happens)


def _likely(row: HostRow, threshold: float) -> NDArray[np.intp]:
    """Return the ids of the likely tokens but the least likely of them."""
    chance = torch.from_numpy(row.scores).softmax(0).numpy()
    ids = np.flatnonzero((chance >= chance.dtype.type(threshold)) & (row.scores > -np.inf))
    if len(ids) < 2:
        return ids[:0]
    scores = row.scores[ids]
    return np.delete(ids, np.flatnonzero(scores == scores.min())[-1])
