"""TopK: keep the k best tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logitkit.parameters import Integer
from logitkit.protocol.context import Context
from logitkit.protocol.described import per_row
from logitkit.protocol.kind import Kind
from logitkit.runtime.host_logits import HostRow, Truncation
from logitkit.sampling.scores import AT_LEAST, remove, scores_of

if TYPE_CHECKING:
    from logitkit.kernels.stages import Stage

__all__ = ["TopK", "TopKState", "best_ids"]

K = Integer(0, note="0 changes nothing")

# The number of columns that are searched first for a lower bound of the k-th best score: the maxima of as many parts of a row.
PARTS = 512


class TopKState(NamedTuple):
    """The number of tokens that each row keeps.

    Args:
        k: [B] int64; 0 keeps all tokens.
    """

    k: Annotated[Tensor, K]


@dataclass(frozen=True)
class TopK(Truncation[TopKState]):
    """Keep the k tokens with the highest logits, and those that tie with the last of them; set all others to -inf.

    Args:
        k: The number of tokens to keep, from 0 to 2**31 - 1; 0, and the number of columns or more, change nothing.
        min_tokens_to_keep: Keep at least this many, if k is less; from 1.

    Raises:
        ConfigurationError: An argument is not an integer in range.

    Example:
        >>> import torch
        >>> import logitkit as lk
        >>> best = lk.TopK(2)
        >>> context = lk.Context.of([[]], vocabulary_size=4)
        >>> best.process_logits(best.init_state(context), torch.tensor([[1.0, 4.0, 3.0, 2.0]]), context)[1]
        tensor([[-inf, 4., 3., -inf]])

    Source: Fan et al., Hierarchical Neural Story Generation (2018). The results are those of transformers' TopKLogitsWarper.
    """

    k: int
    min_tokens_to_keep: int = 1

    kind = Kind("top_k", {"k": K, "min_tokens_to_keep": AT_LEAST}, main="k", order=10, neutral={"k": 0})
    may_empty_rows = False

    def init_state(self, context: Context) -> TopKState:
        """Return the initial state of the rows."""
        return TopKState(per_row(context, max(self.k, self.min_tokens_to_keep) if self.k else 0))

    def _active(self, k: Any, columns: int) -> Any:
        return (k > 0) & (k < columns)

    def _by_tensors(self, state: TopKState, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        last = (state.k - 1).clamp(0, logits.shape[1] - 1)[:, None]
        cut = scores.sort(1, descending=True).values.gather(1, last)
        return remove(logits, scores < cut, self._active(state.k, logits.shape[1]))

    def _stage(self, state: TopKState) -> Stage | None:
        from logitkit.kernels.truncation_step import Rule, TruncationStage

        return TruncationStage(Rule.TOP_K, state.k, state.k)

    def _kept(self, row: HostRow, k: int) -> NDArray[np.intp]:
        """Return the ids of the k best scores, and of those that tie with the last of them."""
        return best_ids(row.scores, k)


def best_ids(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    """Return the ids of the k best scores, and of those that tie with the last of them, ascending.

    Args:
        scores: [V] without NaN.
        k: From 1 to V.
    """
    width = len(scores) // PARTS
    # The k-th best of the parts' maxima is a lower bound of the k-th best score. Few scores reach it, and only these are
    # sorted.
    if k <= PARTS // 4 and width > 1:
        heads = scores[: width * PARTS].reshape(width, PARTS).max(0)
        ids = np.flatnonzero(scores >= np.partition(heads, PARTS - k)[PARTS - k])
        return ids[_at_least_best(scores[ids], k)]
    return _at_least_best(scores, k)


def _at_least_best(scores: NDArray[Any], k: int) -> NDArray[np.intp]:
    place = len(scores) - k
    return np.flatnonzero(scores >= np.partition(scores, place)[place])
