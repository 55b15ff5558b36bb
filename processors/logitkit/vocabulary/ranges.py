"""Expansion of many integer ranges at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def expand(first: NDArray[np.integer], count: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List all members of the ranges `first[i] ... first[i] + count[i] - 1`, and the index `i` of each member's range.

    Example:
        >>> members, owner = expand(np.array([5, 9]), np.array([2, 3]))
        >>> members.tolist(), owner.tolist()
        ([5, 6, 9, 10, 11], [0, 0, 1, 1, 1])
    """
    owner = np.repeat(np.arange(len(count)), count)
    shift = first - (np.cumsum(count) - count)
    return np.arange(len(owner)) + shift[owner], owner
