"""Tensors as large as a block of logits, which all blocks share."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from logitkit.training.state_blocks import StateBlock

__all__ = ["FEW_ROWS", "BlockRoom"]

# With more rows in a block, one indexing is faster than a copy of each row.
FEW_ROWS = 64


class BlockRoom:
    """Tensors as large as a block, which all blocks share.

    Args:
        logits: [B, T, V].
        wide: The dtype of the blocks.
    """

    def __init__(self, logits: Tensor, wide: torch.dtype) -> None:
        self.logits, self.wide = logits.detach(), wide
        self._spaces: tuple[Tensor, Tensor] | None = None
        self._nothing: Tensor | None = None

    def nothing(self, count: int) -> Tensor:
        """Return a tensor of -inf, [N, V], which must be left so."""
        if self._nothing is None or len(self._nothing) < count:
            self._nothing = torch.full((count, self.logits.shape[2]), -torch.inf, dtype=self.wide)
        return self._nothing[:count]

    def spaces(self, count: int) -> tuple[Tensor, Tensor]:
        """Return both tensors, [N, V], with anything in them."""
        if self._spaces is None or len(self._spaces[0]) < count:
            size = (count, self.logits.shape[2])
            first = torch.empty(size, dtype=self.wide, device=self.logits.device)
            self._spaces = first, torch.empty_like(first)
        return self._spaces[0][:count], self._spaces[1][:count]

    def rows_of(self, block: StateBlock) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits of a block, [N, V], copied into the first tensor; the second one; and the greatest logits, [N]."""
        given, spare = self.spaces(len(block.rows))
        if len(given) > FEW_ROWS or not given.is_cpu:
            given.copy_(self.logits[block.rows, block.steps])
            return given, spare, given.amax(1)
        top = np.empty(len(given), given.numpy().dtype)
        for number, (row, step) in enumerate(zip(block.rows.tolist(), block.steps.tolist(), strict=True)):
            # While the row is in the fastest cache.
            top[number] = given[number].copy_(self.logits[row, step]).numpy().max()
        return given, spare, torch.from_numpy(top)
