"""Only the k best tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Integer
from logitkit.protocol.calls import by_tensors, check_tokens, own_rows
from logitkit.protocol.context import Context
from logitkit.protocol.described import Described
from logitkit.protocol.kind import Kind
from logitkit.protocol.processor import Role
from logitkit.runtime.host_logits import host_rows
from logitkit.sampling.scores import AT_LEAST, remove, scores_of

__all__ = ["TopK", "TopKState"]

K = Integer(0, note="0 changes nothing")

# Among so many columns, taken as the heads of as many parts of a row, the k-th best is sought first.
PARTS = 512


class TopKState(NamedTuple):
    """How many tokens each row keeps.

    Args:
        k: [B] int64; 0 keeps all.
    """

    k: Annotated[Tensor, K]


@dataclass(frozen=True)
class TopK(Described):
    """Keep the k tokens of the greatest logits, and those that tie with the last of them; set all others to -inf.

    Args:
        k: Tokens to keep, from 0 to 2**31 - 1; 0, or as many as there are columns, changes nothing.
        min_tokens_to_keep: Keep so many where k is less; from 1.

    Raises:
        ConfigurationError: An argument is no integer of its range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> best = lk.TopK(2)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> best.process_logits(best.init_state(context), torch.tensor([[1.0, 4.0, 3.0, 2.0]]), context)[1]
        tensor([[-inf, 4., 3., -inf]])

    Source: Fan et al., Hierarchical Neural Story Generation (2018); results are those of transformers' TopKLogitsWarper.
    """

    k: int
    min_tokens_to_keep: int = 1

    role = Role.TRUNCATION
    kind = Kind("top_k", {"k": K, "min_tokens_to_keep": AT_LEAST}, main="k", order=10, neutral={"k": 0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopKState:
        """Return the state of rows that have their prompt."""
        k = max(self.k, self.min_tokens_to_keep) if self.k else 0
        return TopKState(torch.full((context.batch_size,), k, dtype=torch.int64, device=context.device))

    def advance(self, state: TopKState, tokens: Tensor) -> TopKState:
        """Return the state, which stays as it is."""
        check_tokens("TopK", state.k.shape[0], tokens)
        return state

    def process_logits(self, state: TopKState, logits: Tensor, context: Context) -> tuple[TopKState, Tensor]:
        """Keep the best tokens, in place on the CPU."""
        logits = own_rows("TopK", state.k.shape[0], logits)
        columns = logits.shape[1]
        if by_tensors(logits):
            scores = scores_of(logits)
            active = (state.k > 0) & (state.k < columns)
            last = (state.k - 1).clamp(0, columns - 1)[:, None]
            cut = scores.sort(1, descending=True).values.gather(1, last)
            return state, remove(logits, scores < cut, active)
        counts = state.k.tolist()
        for number, row in host_rows(logits, [0 < k < columns for k in counts]):
            row.keep(at_least_best(row.scores, counts[number]))
        return state, logits


def at_least_best(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the ids of the k best scores, and of those that tie with the last of them.

    Args:
        scores: [V] without NaN.
        k: From 1 to V.
    """
    width = len(scores) // PARTS
    # The k-th best of the parts' best is no better than that of all: few are as good, and only they need a closer look.
    if k <= PARTS // 4 and width > 1:
        heads = scores[: width * PARTS].reshape(width, PARTS).max(0)
        ids = np.flatnonzero(scores >= np.partition(heads, PARTS - k)[PARTS - k])
        return ids[_at_least_best(scores[ids], k)]
    return _at_least_best(scores, k)


def _at_least_best(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    place = len(scores) - k
    return np.flatnonzero(scores >= np.partition(scores, place)[place])
