"""Expansion of many integer ranges at once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


def expand(first: NDArray[np.integer], count: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """List all members of the ranges `first[i] ... first[i] + count[i] - 1`, and the index `i` of each member's range.

    Example:
        >>> members, owner = expand(np.array([5, 9]), np.array([2, 3]))
        >>> members.tolist(), owner.tolist()
        ([5, 6, 9, 10, 11], [0, 0, 1, 1, 1])
    """
    owner = np.arange(len(count)).repeat(count)
    shift = first - (count.cumsum() - count)
    return np.arange(len(owner)) + shift[owner], owner


def cut_by_sum(count: NDArray[np.integer], most: int) -> list[tuple[int, int]]:
    """Return where to cut so that the counts of each part have about `most` as their sum: the begin and the end of each part.

    Example:
        >>> cut_by_sum(np.array([2, 2, 3, 1, 9]), 4)
        [(0, 2), (2, 4), (4, 5)]
    """
    sums = np.cumsum(count)
    if not len(sums) or sums[-1] <= most:
        return [(0, len(sums))]
    cuts = np.searchsorted(sums, np.arange(most, int(sums[-1]), most), side="right")
    places = np.unique(np.concatenate([[0], cuts, [len(sums)]])).tolist()
    return list(pairwise(places))
