"""The few columns in which the rows of a batch part ways: enough to name each row exactly."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Integers", "branch_columns", "names_of"]

Integers: TypeAlias = NDArray[np.int64]


def branch_columns(rows: Integers) -> Integers:
    """Return the columns in which any two rows differ first.

    Rows form a tree, which branches in at most R - 1 columns, however long the rows are. Two rows that agree
    in these columns are equal; so a row is named by few ids, exactly, which no hash does.

    Args:
        rows: [R, L] token ids.

    Returns:
        [at most R - 1] column indices, ascending.

    Example:
        >>> branch_columns(np.array([[1, 2, 3, 5], [1, 2, 4, 6], [1, 2, 3, 5]])).tolist()
        [2]
    """
    names = [row.tobytes() for row in rows]
    # Any order of ids will do: sorted rows stand beside those with which they share most.
    order = sorted(range(len(rows)), key=names.__getitem__)
    columns = set()
    for one, other in pairwise(order):
        if names[one] != names[other]:
            columns.add(int((rows[one] != rows[other]).argmax()))
    return np.array(sorted(columns), np.int64)


def names_of(rows: Integers, keys: Integers | None) -> list[bytes]:
    """Return the bytes of each row, and of its key; of equal rows they are equal.

    Args:
        rows: [R, K] token ids.
        keys: [R] what else tells rows apart, or None.

    Example:
        >>> a, b, c = names_of(np.array([[1, 2], [1, 3], [1, 2]]), None)
        >>> a == c, a == b
        (True, False)
    """
    if keys is not None:
        rows = np.column_stack((rows, keys))
    whole, width = rows.tobytes(), rows.shape[1] * rows.itemsize
    return [whole[row * width : (row + 1) * width] for row in range(len(rows))]
