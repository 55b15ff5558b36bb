"""Only logits within some standard deviations of the best."""

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
from logitkit.runtime.host_logits import HostRow, host_rows
from logitkit.sampling.scores import remove, scores_of

__all__ = ["TopNSigma", "TopNSigmaState"]

N = Number(-1e4, 1e4, "0 and less change nothing")


class TopNSigmaState(NamedTuple):
    """How many standard deviations each row goes below its best logit.

    Args:
        n: [B] float64, from 0 to 1e4; 0 keeps all.
    """

    n: Annotated[Tensor, Number(0, N.most)]


@dataclass(frozen=True)
class TopNSigma(Described):
    """Keep the tokens whose logits are at most n standard deviations below the greatest; set all others to -inf.

    The deviation is that of all logits of the row but those at -inf. Temperature does not change what is kept.

    Args:
        n: From -1e4 to 1e4; 0 and less, as llama.cpp writes it, change nothing.

    Raises:
        ConfigurationError: `n` is not a number of its range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> near = lk.TopNSigma(1.0)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> near.process_logits(near.init_state(context), torch.tensor([[1.0, 4.0, 3.0, 2.0]]), context)[1]
        tensor([[-inf, 4., 3., -inf]])

    Source: Tang et al., Top-nσ: Not All Logits Are You Need (2024); results are those of llama.cpp, but that the deviation is
    worked out in 64 bits, where llama.cpp adds up the logits in 32, one after the other.
    """

    n: float

    role = Role.TRUNCATION
    kind = Kind("top_n_sigma", {"n": N}, main="n", order=20, neutral={"n": 0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopNSigmaState:
        """Return the state of rows that have their prompt."""
        n = max(self.n, 0.0)
        return TopNSigmaState(torch.full((context.batch_size,), n, dtype=torch.float64, device=context.device))

    def advance(self, state: TopNSigmaState, tokens: Tensor) -> TopNSigmaState:
        """Return the state, which stays as it is."""
        check_tokens("TopNSigma", state.n.shape[0], tokens)
        return state

    def process_logits(self, state: TopNSigmaState, logits: Tensor, context: Context) -> tuple[TopNSigmaState, Tensor]:
        """Keep the logits near the best, in place on the CPU."""
        logits = own_rows("TopNSigma", state.n.shape[0], logits)
        if by_tensors(logits):
            return state, _by_tensors(state, logits)
        factors = state.n.tolist()
        for number, row in host_rows(logits, [n > 0 for n in factors]):
            row.keep(_near(row, factors[number]))
        return state, logits


def _by_tensors(state: TopNSigmaState, logits: Tensor) -> Tensor:
    scores = scores_of(logits)
    counts = scores > -torch.inf
    count = counts.sum(1, keepdim=True)
    values = torch.where(counts, scores, 0).double()
    mean = values.sum(1, keepdim=True) / count
    spread = torch.where(counts, values - mean, 0).square().sum(1, keepdim=True)
    deviation = (spread / count).sqrt().to(scores.dtype)
    cut = scores.amax(1, keepdim=True) - state.n.to(scores.dtype)[:, None] * deviation
    return remove(logits, scores < cut, state.n > 0)


def _near(row: HostRow, n: float) -> NDArray[np.intp]:
    """Return the ids to keep."""
    scores: NDArray[Any] = row.scores
    number = scores.dtype.type
    # To pick by places is five times faster than by a mask.
    values = scores if scores.min() > -np.inf else scores[np.flatnonzero(scores > -np.inf)]
    wide = torch.from_numpy(values).double()
    deviation = math.sqrt((wide - wide.mean()).square_().mean())
    # The greatest numbers of their dtype have no deviation that it could hold: then everything is near.
    with np.errstate(over="ignore", invalid="ignore"):
        cut = number(row.top) - number(n) * number(deviation)
    return np.flatnonzero(~(scores < cut))
