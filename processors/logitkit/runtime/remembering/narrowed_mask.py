"""The mask of a state, and more tokens that are banned in one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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

    def _end_if_empty(self, row: NDArray[Any], never: Any, zero: Any) -> bool:
        # All other steps are those of the state's mask. `super` does not know a class with slots that a decorator makes.
        row[self.more] = never
        return RowMask._end_if_empty(self, row, never, zero)  # noqa: SLF001 - its own

    def keep_bits(self) -> NDArray[np.uint16]:
        """Return the bits of the state's mask, which keeps them; see `RowMask.keep_bits`."""
        assert self.of_state is not None
        return self.of_state.keep_bits()

    def legal(self) -> NDArray[np.bool_]:
        """Return [V] bool, which ids are allowed."""
        assert self.of_state is not None
        found = self.of_state.legal()
        found[self.more] = False
        return found
