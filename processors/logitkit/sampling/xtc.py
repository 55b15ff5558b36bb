"""Xtc: exclude top choices. Now and then, only the least likely of the likely tokens stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Integer, Number
from logitkit.protocol.calls import check_tokens, count_tokens
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind, Role
from logitkit.runtime.host_logits import HostAndDevice, HostRow, host_rows
from logitkit.sampling.counter_random import uniform_rows, uniform_tensors
from logitkit.sampling.scores import remove, scores_of

__all__ = ["Xtc", "XtcState"]

PROBABILITY = Number(0, 1, "0 changes nothing")
THRESHOLD = Number(0, 1, "above 0.5 nothing changes")

# Above this threshold, no two tokens can be likely.
HALF = 0.5


class XtcState(NamedTuple):
    """The parameters of each row, and its place in the sequence of random numbers.

    Args:
        probability: [B] float64, from 0 to 1; 0 changes nothing.
        threshold: [B] float64, from 0 to 1.
        seed: [B] int64.
        stream: [B] int64.
        position: [B] int64, the number of tokens so far, including the prompt.
    """

    probability: Annotated[Tensor, PROBABILITY]
    threshold: Annotated[Tensor, THRESHOLD]
    seed: Tensor
    stream: Tensor
    position: Annotated[Tensor, Integer(0, 2**63 - 1)]


@dataclass(frozen=True)
class Xtc(HostAndDevice[XtcState]):
    """With a given probability, set all likely tokens except the least likely of them to -inf.

    If several tie for the least likely, the one with the highest id stays. No token is exempt: a line break or EOS may be removed
    too. The random numbers are a function of the seed, the row's stream (see `Context.stream_ids`) and the number of its tokens,
    so a replay draws the same numbers, and rows with the same prompt draw different ones.

    Args:
        probability: How often tokens are removed, from 0 (never) to 1.
        threshold: The probability from which a token is likely, from 0 to 1; above 0.5 nothing changes.
        seed: From 0 to 2**63 - 1.

    Raises:
        ConfigurationError: An argument is not in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> daring = lk.Xtc(probability=1.0, threshold=0.15)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> logits = torch.tensor([[0.4, 0.1, 0.2, 0.3]]).log()
        >>> daring.process_logits(daring.init_state(context), logits, context)[1].exp()
        tensor([[0.0000, 0.1000, 0.2000, 0.0000]])

    Source: p-e-w, Exclude Top Choices (XTC) (2024). Whenever tokens are removed, they are those of llama.cpp; the random numbers
    differ.
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
        """Return the initial state of the rows."""
        probability, threshold = per_row(context, self.probability), per_row(context, self.threshold)
        streams, lengths = context.streams.clone(), context.lengths.clone()
        return XtcState(probability, threshold, per_row(context, self.seed), streams, lengths)

    def advance(self, state: XtcState, tokens: Tensor) -> XtcState:
        """Return the state after `tokens`, [B] or [B, T] int64 with -1 for none."""
        check_tokens("Xtc", state.position.shape[0], tokens)
        return state._replace(position=state.position + count_tokens(tokens))

    def _by_tensors(self, state: XtcState, logits: Tensor) -> Tensor:
        happens = uniform_tensors(state.seed, state.stream, state.position) < state.probability
        scores = scores_of(logits)
        chance = scores.softmax(1)
        likely = (chance >= state.threshold.to(chance.dtype)[:, None]) & (scores > -torch.inf)
        least = torch.where(likely, scores, torch.inf).amin(1, keepdim=True)
        number = torch.arange(scores.shape[1], device=scores.device)
        stays = torch.where(likely & (scores == least), number, -1).amax(1, keepdim=True)
        return remove(logits, likely & (number != stays), happens & (state.threshold <= HALF))

    def _by_rows(self, state: XtcState, logits: Tensor) -> Tensor:
        happens = uniform_rows(state.seed, state.stream, state.position) < state.probability.numpy()
        active = happens & (state.threshold.numpy() <= HALF)
        thresholds = state.threshold.tolist()
        for number, row in host_rows(logits, active.tolist()):
            row.line[_removed(row, thresholds[number])] = row.never
        return logits


def _removed(row: HostRow, threshold: float) -> NDArray[np.intp]:
    """Return the ids of all likely tokens except the least likely of them."""
    chance = torch.from_numpy(row.scores).softmax(0).numpy()
    ids = np.flatnonzero((chance >= chance.dtype.type(threshold)) & (row.scores > -np.inf))
    if len(ids) < 2:
        return ids[:0]
    scores = row.scores[ids]
    return np.delete(ids, np.flatnonzero(scores == scores.min())[-1])
