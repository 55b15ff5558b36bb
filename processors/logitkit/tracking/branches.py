"""The columns at which the rows of a batch differ first: a few ids that identify each row."""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Integers", "branch_columns", "hashes_of", "names_of"]

Integers: TypeAlias = NDArray[np.int64]

# The factor of a multiplicative hash; any odd number with well-spread bits works.
FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)


def branch_columns(rows: Integers) -> Integers:
    """Return the columns at which any two rows differ first.

    The rows form a tree with at most R - 1 branching columns, however long the rows are. Two rows that agree in these columns are
    equal. So a few ids identify a row exactly, which a hash cannot.

    Args:
        rows: [R, L] token ids.

    Returns:
        Ascending column indices, at most R - 1.

    Example:
        >>> branch_columns(np.array([[1, 2, 3, 5], [1, 2, 4, 6], [1, 2, 3, 5]])).tolist()
        [2]
    """
    names = [row.tobytes() for row in rows]
    # Any sorting order works: it puts rows next to those with which they share the longest beginning.
    order = sorted(range(len(rows)), key=names.__getitem__)
    columns = set()
    for one, other in pairwise(order):
        if names[one] != names[other]:
            columns.add(int((rows[one] != rows[other]).argmax()))
    return np.array(sorted(columns), np.int64)


def hashes_of(rows: Integers, keys: Integers | None) -> list[Hashable]:
    """Return a hash of each row and its key: equal for equal rows, almost never equal for others.

    Args:
        rows: [R, K] token ids.
        keys: [R] one more number per row, or None.
    """
    hashes = rows @ _weights(rows.shape[1])
    numbers: list[Hashable] = (hashes if keys is None else hashes + keys).tolist()
    return numbers


@lru_cache(maxsize=256)
def _weights(count: int) -> Integers:
    # Powers of an odd number: a product that wraps around keeps all information about an id.
    return np.cumprod(np.full(count, FACTOR))


def names_of(rows: Integers, keys: Integers | None) -> list[Hashable]:
    """Return each row and its key as bytes, which are equal exactly if the rows and keys are.

    Args:
        rows: [R, K] token ids.
        keys: [R] one more number per row, or None.
    """
    if keys is not None:
        rows = np.column_stack((rows, keys))
    whole, width = rows.tobytes(), rows.shape[1] * rows.itemsize
    return [whole[row * width : (row + 1) * width] for row in range(len(rows))]
