"""Tensors as large as a block of logits, which all blocks share."""

from __future__ import annotations

import torch
from torch import Tensor

from logitkit.training.state_blocks import StateBlock

__all__ = ["FEW_ROWS", "BlockRoom"]

# With more rows in a block, one indexing is faster than a copy of each row.
FEW_ROWS = 128


class BlockRoom:
    """Tensors as large as a block, which all blocks share.

    Args:
        logits: [B, T, V].
        wide: The dtype of the blocks.
    """

    def __init__(self, logits: Tensor, wide: torch.dtype) -> None:
        self.logits, self.wide = logits.detach(), wide
        self._given, self._spare, self._nothing = (self._rows(0) for _ in range(3))

    def rows_of(self, block: StateBlock) -> Tensor:
        """Return a copy of the logits of a block, [N, V], in a tensor of this object."""
        self._given = self._enough(self._given, len(block.rows))
        given = self._given[: len(block.rows)]
        if len(given) > FEW_ROWS or not given.is_cpu:
            return given.copy_(self.logits[block.rows, block.steps])
        for line, row, step in zip(given, block.rows.tolist(), block.steps.tolist(), strict=True):
            line.copy_(self.logits[row, step])
        return given

    def spare(self, count: int) -> Tensor:
        """Return another tensor, [N, V], with anything in it."""
        self._spare = self._enough(self._spare, count)
        return self._spare[:count]

    def nothing(self, count: int) -> Tensor:
        """Return a tensor of -inf, [N, V], which must be left so."""
        if len(self._nothing) < count:
            self._nothing = self._rows(count).fill_(-torch.inf)
        return self._nothing[:count]

    def _enough(self, rows: Tensor, count: int) -> Tensor:
        return rows if len(rows) >= count else self._rows(count)

    def _rows(self, count: int) -> Tensor:
        return torch.empty((count, self.logits.shape[2]), dtype=self.wide, device=self.logits.device)
