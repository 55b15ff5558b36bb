"""The few columns in which the rows of a batch part ways: enough to name each row exactly."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Integers", "branch_columns", "hashes_of", "names_of"]

Integers: TypeAlias = NDArray[np.int64]

# Of a multiplicative hash; any odd number with bits all over will do.
FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)


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


def hashes_of(rows: Integers, keys: Integers | None) -> list[Hashable]:
    """Return a number for each row and its key; of equal rows they are equal, of others hardly ever.

    Args:
        rows: [R, K] token ids.
        keys: [R] what else tells rows apart, or None.
    """
    hashes = rows @ _weights(rows.shape[1])
    numbers: list[Hashable] = (hashes if keys is None else hashes + keys).tolist()
    return numbers


@lru_cache(maxsize=256)
def _weights(count: int) -> Integers:
    # Powers of an odd number: sums wrap around, and nothing of an id is lost.
    return np.cumprod(np.full(count, FACTOR))


def names_of(rows: Integers, keys: Integers | None) -> list[Hashable]:
    """Return the bytes of each row and its key: equal if and only if these are.

    Args:
        rows: [R, K] token ids.
        keys: [R] what else tells rows apart, or None.
    """
    if keys is not None:
        rows = np.column_stack((rows, keys))
    whole, width = rows.tobytes(), rows.shape[1] * rows.itemsize
    return [whole[row * width : (row + 1) * width] for row in range(len(rows))]
