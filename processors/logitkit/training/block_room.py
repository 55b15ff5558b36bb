"""Tensors as large as a block of logits, which all blocks share."""

from __future__ import annotations

import numpy as np
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

    def rows_of(self, block: StateBlock) -> tuple[Tensor, Tensor]:
        """Return a copy of the logits of a block, [N, V], in a tensor of this object; and the greatest ones, [N]."""
        self._given = self._enough(self._given, len(block.rows))
        given = self._given[: len(block.rows)]
        if len(given) > FEW_ROWS or not given.is_cpu:
            given.copy_(self.logits[block.rows, block.steps])
            return given, given.amax(1)
        top = np.empty(len(given), given.numpy().dtype)
        for number, (row, step) in enumerate(zip(block.rows.tolist(), block.steps.tolist(), strict=True)):
            # While the row is in the fastest cache.
            top[number] = given[number].copy_(self.logits[row, step]).numpy().max()
        return given, torch.from_numpy(top)

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
