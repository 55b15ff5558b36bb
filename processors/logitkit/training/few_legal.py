"""Sums and gradients of rows in which few tokens are legal, on the CPU, in time proportional to these instead of the vocabulary.

Where top-p or a schema leaves 300 of 131,072 tokens, a softmax of the whole row takes a hundred times as long as one of the 300.
So the rows of a block are flattened: if tokens 3 and 7 are legal in row 0, and token 5 in row 1, the rows are (0, 0, 1), the ids
(3, 7, 5), and their logits an array of three numbers. Processors find tokens by their columns, so they still get whole rows, of
-inf but for the legal tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.runtime.token_bits import sizes, tokens_of
from logitkit.training.kept_sets import LogSums

__all__ = ["FewLegal", "are_few"]

# An index of a token takes about as long as this many numbers of a pass over a row.
FEW = 16


def are_few(sets: Tensor, columns: int) -> Tensor:
    """Return which sets of tokens on the CPU are small enough, [...] bool for [..., ceil(V / 32)] int32; empty ones are not."""
    count = sizes(sets)
    return torch.from_numpy((count > 0) & (count * FEW <= columns))


@dataclass(frozen=True, eq=False)
class FewLegal:
    """The legal tokens of N rows, at least one in each.

    Args:
        rows: [M], the row of each token, rising.
        ids: [M], the token.
        starts: [N], the place of the first token of each row.
    """

    rows: NDArray[np.int64]
    ids: NDArray[np.int64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, sets: Tensor) -> FewLegal:
        """Return the tokens of sets on the CPU, [N, ceil(V / 32)] int32, none of them empty.

        Example:
            >>> legal = FewLegal.of(torch.tensor([[0b10001000], [0b100000]], dtype=torch.int32))
            >>> legal.rows.tolist(), legal.ids.tolist(), legal.starts.tolist()
            ([0, 0, 1], [3, 7, 5], [0, 2])
        """
        rows, ids = tokens_of(sets)
        return cls(rows, ids, np.searchsorted(rows, np.arange(len(sets))))

    def take(self, logits: Tensor) -> Tensor:
        """Return numbers of the tokens, [M], from those of rows, [N, V], or from one of each row, [N, 1]."""
        array = logits.numpy()
        return torch.from_numpy(array[self.rows, 0 if array.shape[1] == 1 else self.ids])

    def write(self, logits: Tensor, given: Tensor, other: float) -> None:
        """Set the tokens of rows, [N, V], to given numbers, [M], and all other tokens to another one."""
        array = logits.fill_(other).numpy()
        array[self.rows, self.ids] = given.numpy()

    def log_sums(self, logits: Tensor) -> LogSums:
        """Return the logarithm of the sum of exponentials of the tokens of each row, [N], from logits, [N, V]."""
        top, _, total = self._exponentials(self.take(logits))
        return LogSums(torch.from_numpy(top), torch.from_numpy(np.log(total).astype(top.dtype)))

    def softmax(self, logits: Tensor) -> Tensor:
        """Return the probabilities of the tokens in their rows, [M], from logits, [M]."""
        _, exponentials, total = self._exponentials(logits)
        return torch.from_numpy((exponentials / total[self.rows]).astype(exponentials.dtype))

    def places_of(self, tokens: Tensor) -> Tensor:
        """Return the place of one legal token of each row, [N]."""
        return torch.from_numpy(np.flatnonzero(self.ids == tokens.numpy()[self.rows]))

    def _exponentials(self, logits: Tensor) -> tuple[NDArray[np.floating], NDArray[np.floating], NDArray[np.float64]]:
        """Return the greatest logit of each row, [N], exponentials relative to it, [M], and their sums, [N]."""
        given = logits.numpy()
        top = np.maximum.reduceat(given, self.starts)
        # A processor that returned +inf gives NaN, which the caller reports.
        with np.errstate(invalid="ignore"):
            exponentials = np.exp(given - top[self.rows])
        return top, exponentials, np.add.reduceat(exponentials, self.starts, dtype=np.float64)
