"""Only tokens that are likely in proportion to the likeliest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.protocol.state import Fill
from logitkit.runtime.host_logits import HostRow, host_rows
from logitkit.sampling.scores import AT_LEAST, in_place_of, remove, scores_of

__all__ = ["MinP", "MinPState"]

P = Number(0, 1, "0 changes nothing")

# How far the logarithm of a quotient of two probabilities in 32 bits may be from the difference of their logits, generously.
DOUBT = 1e-3

# Probabilities below this, of which the last bits get lost, are looked at one by one.
TINY = 1e-20


class MinPState(NamedTuple):
    """What share of the best probability each row asks for.

    Args:
        p: [B] float64, from 0 to 1; 0 keeps all.
        keep: [B, 1] int64, tokens to keep at least; [B, 0] where one is enough, which the best always is. The shape alone says
            so, and a sort is spared.
    """

    p: Annotated[Tensor, P]
    keep: Annotated[Tensor, Fill(1), AT_LEAST]


@dataclass(frozen=True)
class MinP(Described):
    """Keep the tokens that are at least p times as likely as the likeliest; set all others to -inf.

    Args:
        p: From 0 (which changes nothing) to 1.
        min_tokens_to_keep: Keep so many of the best at least, those with the lesser ids where they tie; from 1.

    Raises:
        ConfigurationError: An argument is not of its range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> likely = lk.MinP(0.5)
        >>> context = lk.Context.of([[]], vocabulary_size=3)
        >>> logits = torch.tensor([[0.5, 0.2, 0.3]]).log()
        >>> likely.process_logits(likely.init_state(context), logits, context)[1].exp()
        tensor([[0.5000, 0.0000, 0.3000]])

    Source: Nguyen et al., Turning Up the Heat: Min-p Sampling (2024); results are those of transformers' MinPLogitsWarper in
    float32.
    """

    p: float
    min_tokens_to_keep: int = 1

    role = Role.TRUNCATION
    kind = Kind("min_p", {"p": P, "min_tokens_to_keep": AT_LEAST}, main="p", order=50, neutral={"p": 0.0})
    may_empty_rows = False

    def init_state(self, context: Context) -> MinPState:
        """Return the state of rows that have their prompt."""
        rows, device, several = context.batch_size, context.device, self.min_tokens_to_keep > 1
        return MinPState(
            torch.full((rows,), self.p, dtype=torch.float64, device=device),
            torch.full((rows, int(several)), self.min_tokens_to_keep, dtype=torch.int64, device=device),
        )

    def advance(self, state: MinPState, tokens: Tensor) -> MinPState:
        """Return the state, which stays as it is."""
        check_tokens("MinP", state.p.shape[0], tokens)
        return state

    def process_logits(self, state: MinPState, logits: Tensor, context: Context) -> tuple[MinPState, Tensor]:
        """Keep the likely tokens, in place on the CPU."""
        logits = own_rows("MinP", state.p.shape[0], logits)
        if by_tensors(logits):
            return state, _by_tensors(state, logits)
        shares = state.p.tolist()
        least = state.keep[:, 0].tolist() if state.keep.shape[1] else [1] * len(shares)
        for number, row in host_rows(logits, [p > 0 for p in shares]):
            ids = _likely(row, shares[number])
            row.keep(ids if len(ids) >= least[number] else _best(row.scores, least[number]))
        return state, logits


def _by_tensors(state: MinPState, logits: Tensor) -> Tensor:
    scores = scores_of(logits)
    chance = scores.softmax(1)
    unlikely = chance < state.p.to(chance.dtype)[:, None] * chance.amax(1, keepdim=True)
    if state.keep.shape[1]:
        order = scores.sort(dim=1, descending=True, stable=True).indices
        behind = torch.arange(scores.shape[1], device=scores.device) >= state.keep
        unlikely &= in_place_of(order, behind)
    return remove(logits, unlikely, state.p > 0)


def _likely(row: HostRow, share: float) -> NDArray[np.intp]:
    """Return the ids that are likely enough.

    Their logits say so almost always; where rounding might decide, the probabilities are worked out as the reference does.
    """
    cut = row.top + math.log(share)
    ids = np.flatnonzero(row.scores >= cut - DOUBT)
    if share * (1 / len(row.scores)) > TINY and not (row.scores[ids] < cut + DOUBT).any():
        return ids
    chance = torch.from_numpy(row.scores).softmax(0).numpy()
    return np.flatnonzero(chance >= chance.dtype.type(share) * chance.max())


def _best(scores: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Return the ids of so many best scores, the lesser ids where they tie."""
    return np.argsort(-scores, kind="stable")[:count]
