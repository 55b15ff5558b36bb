"""Sums and gradients of rows in which few tokens are legal, on the CPU, in time proportional to these instead of the vocabulary.

Where top-p or a schema leaves 300 of 131,072 tokens, a softmax of the whole row takes a hundred times as long as one of the 300.
So the rows of a block are flattened: if tokens 3 and 7 are legal in row 0, and token 5 in row 1, the rows are (0, 0, 1), the ids
(3, 7, 5), and their logits an array of three numbers.

For the gradient, they go through all processors that do not mask. Each processed logit is then the given one times a slope, plus
a number, so the gradient of a given logit is that of the processed one times the product of all slopes. `Temperature` treats all
tokens of a row alike, so it gets rows of the legal ones alone. Biases and penalties find tokens by their columns, so they get
whole rows, of -inf but for the legal tokens. These are written into a tensor of -inf, and taken out again: filling a row of
131,072 logits takes longer than the rest of the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from logitkit.protocol.calls import process_checked
from logitkit.protocol.declared import truncates
from logitkit.protocol.processor import Processor
from logitkit.runtime.token_bits import sizes, tokens_of
from logitkit.training.derivatives import Derivative, derivative_of
from logitkit.training.state_blocks import StateBlock

__all__ = ["FewLegal", "FewPass", "are_few"]

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

    def write(self, logits: Tensor, given: Tensor | float) -> None:
        """Set the tokens of rows, [N, V], to given numbers, [M], or to one number."""
        logits.numpy()[self.rows, self.ids] = given.numpy() if isinstance(given, Tensor) else given

    def side_by_side(self, logits: Tensor) -> Tensor:
        """Return rows of the tokens alone, [N, most], from their logits, [M]; shorter rows end with -inf.

        Example:
            >>> legal = FewLegal.of(torch.tensor([[0b10001000], [0b100000]], dtype=torch.int32))
            >>> legal.side_by_side(torch.tensor([1.0, 2.0, 3.0]))
            tensor([[1., 2.],
                    [3., -inf]])
        """
        rows = logits.new_full((len(self.starts), int(self._places.max()) + 1), -torch.inf)
        rows.numpy()[self.rows, self._places] = logits.numpy()
        return rows

    def from_side_by_side(self, rows: Tensor) -> Tensor:
        """Return the logits, [M], from the rows that `side_by_side` returns."""
        return torch.from_numpy(rows.numpy()[self.rows, self._places])

    @property
    def _places(self) -> NDArray[np.int64]:
        """The place of each token in its row of legal tokens, [M]."""
        return np.arange(len(self.rows)) - self.starts[self.rows]

    def softmax(self, logits: Tensor) -> Tensor:
        """Return the probabilities of the tokens in their rows, [M], from logits, [M]."""
        given = logits.numpy()
        exponentials = np.exp(given - np.maximum.reduceat(given, self.starts)[self.rows])
        total = np.add.reduceat(exponentials, self.starts, dtype=np.float64)
        return torch.from_numpy((exponentials / total[self.rows]).astype(exponentials.dtype))

    def places_of(self, tokens: Tensor) -> Tensor:
        """Return the place of one legal token of each row, [N]."""
        return torch.from_numpy(np.flatnonzero(self.ids == tokens.numpy()[self.rows]))


class FewPass:
    """Rows on their way through the processors of a chain, all of which mask, shift or scale.

    Args:
        block: The states of N rows, none of which had to end.
        few: Their M legal tokens.
        logits: [M] of at least 32 bits, the given logits of these.
        columns: A tensor [N, V] of the same dtype, of -inf, as this class leaves it.

    Attributes:
        logits: [M], the processed logits.
        slopes: [M], their derivatives by the given ones.
    """

    def __init__(self, block: StateBlock, few: FewLegal, logits: Tensor, columns: Tensor) -> None:
        self._block, self._few, self._columns = block, few, columns
        self.logits, self.slopes = logits, torch.ones_like(logits)

    def run(self, kept: bool) -> None:
        """Run the processors; without truncations if the legal tokens are those that the sampler kept."""
        for processor, state in zip(self._block.group.chain.processors, self._block.state, strict=True):
            derivative = derivative_of(processor)
            if derivative is Derivative.SELECTION or (kept and truncates(processor)):
                continue
            if derivative is Derivative.ROW_SCALE:
                self._scale_rows(processor, state)
                continue
            if derivative is Derivative.SIGN_SCALE:
                signs = torch.where(self.logits < 0, -1.0, 1.0).to(self.logits.dtype)
                self.slopes *= self._by_columns(processor, state, signs).abs_()
            self.logits = self._by_columns(processor, state, self.logits)

    def _scale_rows(self, processor: Processor[Any], state: Any) -> None:
        context, rows = self._block.context, self._few.side_by_side(self.logits)
        slopes = process_checked(processor, state, torch.ones_like(rows[:, :1]), context)
        self.slopes *= self._few.take(slopes)
        self.logits = self._few.from_side_by_side(process_checked(processor, state, rows, context))

    def _by_columns(self, processor: Processor[Any], state: Any, given: Tensor) -> Tensor:
        """Return numbers of the tokens, [M], as a processor changes them in their columns."""
        self._few.write(self._columns, given)
        found = self._few.take(process_checked(processor, state, self._columns, self._block.context))
        # A logit at -inf stays there, so only these have changed.
        self._few.write(self._columns, -torch.inf)
        return found
