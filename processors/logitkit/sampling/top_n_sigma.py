"""TopNSigma: keep the logits within some standard deviations of the best."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Number
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.runtime.host_logits import HostRow, Truncation
from logitkit.sampling.scores import remove, scores_of

__all__ = ["TopNSigma", "TopNSigmaState"]

N = Number(-1e4, 1e4, "0 and less change nothing")


class TopNSigmaState(NamedTuple):
    """The number of standard deviations below its best logit that each row keeps.

    Args:
        n: [B] float64, from 0 to 1e4; 0 keeps all tokens.
    """

    n: Annotated[Tensor, Number(0, N.most)]


@dataclass(frozen=True)
class TopNSigma(Truncation[TopNSigmaState]):
    """Keep the tokens whose logits are at most n standard deviations below the highest; set all others to -inf.

    The standard deviation is that of all logits of the row except those at -inf. The temperature does not change the result.

    Args:
        n: From -1e4 to 1e4; 0 and less, as in llama.cpp, change nothing.

    Raises:
        ConfigurationError: `n` is not a number in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> near = lk.TopNSigma(1.0)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> near.process_logits(near.init_state(context), torch.tensor([[1.0, 4.0, 3.0, 2.0]]), context)[1]
        tensor([[-inf, 4., 3., -inf]])

    Source: Tang et al., Top-nσ: Not All Logits Are You Need (2024). The results are those of llama.cpp, except that the
    deviation is computed in 64 bits, while llama.cpp adds up the logits in 32 bits, one after the other.
    """

    n: float

    kind = Kind("top_n_sigma", {"n": N}, main="n", order=20, neutral={"n": 0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopNSigmaState:
        """Return the initial state of the rows."""
        return TopNSigmaState(per_row(context, max(self.n, 0.0)))

    def _active(self, n: Any, columns: int) -> Any:
        return n > 0

    def _by_tensors(self, state: TopNSigmaState, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        counts = scores > -torch.inf
        count = counts.sum(1, keepdim=True)
        values = torch.where(counts, scores, 0).double()
        mean = values.sum(1, keepdim=True) / count
        spread = torch.where(counts, values - mean, 0).square().sum(1, keepdim=True)
        deviation = (spread / count).sqrt().to(scores.dtype)
        cut = scores.amax(1, keepdim=True) - state.n.to(scores.dtype)[:, None] * deviation
        return remove(logits, scores < cut, self._active(state.n, logits.shape[1]))

    def _kept(self, row: HostRow, n: float) -> NDArray[np.intp]:
        """Return the ids to keep."""
        scores: NDArray[Any] = row.scores
        number = scores.dtype.type
        # Selecting by index is five times faster than by a mask.
        values = scores if scores.min() > -np.inf else scores[np.flatnonzero(scores > -np.inf)]
        wide = torch.from_numpy(values).double()
        deviation = math.sqrt((wide - wide.mean()).square_().mean())
        # The deviation of the largest numbers of a dtype may overflow; then all of them are near.
        with np.errstate(over="ignore", invalid="ignore"):
            cut = number(row.top) - number(n) * number(deviation)
        return np.flatnonzero(~(scores < cut))
