"""Tables of automata in which states have other numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.nested_step import ByStep

__all__ = ["ROWS_AT_ONCE", "renumbered_table"]

# The number of rows of a table that are worked on at once. All of them at once would take the memory of several tables.
ROWS_AT_ONCE = 2**11


def renumbered_table(step: NDArray[np.int32], rows: NDArray[np.int64], means: ByStep) -> NDArray[np.int32]:
    """Return some rows of a table, in which each step is replaced by another one.

    Args:
        step: [S, K] the table.
        rows: [N] the rows that are left, in their new order.
        means: The new step for each old one.
    """
    found = np.empty((len(rows), step.shape[1]), np.int32)
    for begin in range(0, len(rows), ROWS_AT_ONCE):
        found[begin : begin + ROWS_AT_ONCE] = means.values[step[rows[begin : begin + ROWS_AT_ONCE]]]
    return found
