"""The mask of a state, and more tokens that are banned in one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from logitkit.runtime.logit_arrays import as_array
from logitkit.runtime.row_mask import RowMask

__all__ = ["NarrowedMask"]


@dataclass(slots=True, eq=False)
class NarrowedMask(RowMask):
    """A mask that bans more tokens than that of the state.

    Args:
        of_state: The mask of the state.
        more: The ids of the other tokens, which end no row.
    """

    of_state: RowMask | None = None
    more: NDArray[np.int64] | None = None

    @classmethod
    def narrowing(cls, mask: RowMask, more: NDArray[np.int64]) -> NarrowedMask:
        """Return a mask that bans more tokens."""
        return cls(
            mask.size, mask.forced, mask.probe, mask.allowed, mask.banned, mask.ceiling, of_state=mask, more=more
        )

    def apply(self, row: NDArray[Any], never: Any, zero: Any, number: int | None = None) -> bool:
        """Mask one row of logits in place; see `RowMask.apply`."""
        assert self.of_state is not None
        cut_off = self.of_state.apply(row, never, zero, number)
        return self._narrow(row, never, zero) or cut_off

    def masked(self, scores: Tensor) -> tuple[Tensor, bool]:
        """Return new logits of one row of a model, masked; see `RowMask.masked`."""
        assert self.of_state is not None
        found, cut_off = self.of_state.masked(scores)
        array, never, zero = as_array(found)
        return found, self._narrow(array[0], never, zero) or cut_off

    def _narrow(self, row: NDArray[Any], never: Any, zero: Any) -> bool:
        row = row[: self.size]
        row[self.more] = never
        return self._end_if_empty(row, never, zero)

    def legal(self) -> NDArray[np.bool_]:
        """Return [V] bool, which ids are allowed."""
        assert self.of_state is not None
        found = self.of_state.legal()
        found[self.more] = False
        return found
