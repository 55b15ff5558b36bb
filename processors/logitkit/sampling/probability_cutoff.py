"""The base of truncations that keep every token whose probability is at least a threshold of its row.

By hand: of the probabilities 0.5, 0.3, 0.15 and 0.05, a threshold of 0.2 keeps the first two. The best token always stays, and so
do the best `min_tokens_to_keep` tokens with all that tie with the last of them, as in transformers.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.runtime.host_logits import HostRow, Truncation
from logitkit.sampling.scores import remove, scores_of

__all__ = ["ProbabilityCutoff", "best_of_each"]

S = TypeVar("S", bound=tuple[Any, ...])


class ProbabilityCutoff(Truncation[S]):
    """Keep the tokens whose probability reaches a threshold, which subclasses define in `_threshold`.

    The first field of a state is a parameter, [B]; the last one is `keep`, as `minimum` made it.
    """

    def _threshold(self, parameters: tuple[Tensor, ...], scores: Tensor, chances: Tensor) -> Tensor:
        """Return the threshold of each row, [B, 1] in the dtype of the probabilities.

        Args:
            parameters: The fields of the state, [B] each, without `keep`.
            scores: [B, V] without NaN and +inf.
            chances: [B, V], their softmax.
        """
        raise NotImplementedError

    def _by_tensors(self, state: S, logits: Tensor) -> Tensor:
        scores = scores_of(logits)
        chances = scores.softmax(1)
        unlikely = chances < self._threshold(state[:-1], scores, chances)
        removed = unlikely & (scores < best_of_each(scores, state[-1]))
        return remove(logits, removed, self._active(state[0], logits.shape[1]))

    def _kept(self, row: HostRow, *values: Any) -> NDArray[np.intp]:
        """Return the ids to keep in a row."""
        *parameters, keep = values
        scores = torch.from_numpy(row.scores)
        chances = scores.softmax(0)
        # Numbers are float64, as in states; truth values stay what they are.
        given = tuple(torch.from_numpy(np.array([value])) for value in parameters)
        threshold = chances.numpy().dtype.type(self._threshold(given, scores[None], chances[None]).item())
        kept: NDArray[np.intp] = np.flatnonzero(chances.numpy() >= threshold)
        count = min(max(sum(keep), 1), len(row.scores))
        if len(kept) >= count:
            return kept
        least = row.top if count == 1 else np.partition(row.scores, -count)[-count]
        return np.flatnonzero((chances.numpy() >= threshold) | (row.scores >= least))


def best_of_each(scores: Tensor, keep: Tensor) -> Tensor:
    """Return the score of the last token to keep in each row, [B, 1], counted from the best one.

    Args:
        scores: [B, V] without NaN.
        keep: The minimum number of tokens to keep, as `minimum` made it: [B, 1], or [B, 0] for the best one.
    """
    if not keep.shape[1]:
        return scores.amax(1, keepdim=True)
    ordered = scores.sort(dim=1, descending=True).values
    return ordered.gather(1, (keep - 1).clamp(max=scores.shape[1] - 1))
