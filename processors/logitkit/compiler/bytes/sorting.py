"""Sorting of whole numbers with numpy's plain sort: its stable sorts, and `np.unique`, take ten times as long or more."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.vocabulary.ranges import expand

# Numbers are marked in a table, which is faster than sorting, if all are below `SPARSE` times their count plus `FEW`.
SPARSE, FEW = 8, 2**12

# Pairs of two numbers are marked in a table too, if at most this many pairs are possible.
LARGEST_TABLE = 2**22

# Rows are numbered as one number each, up to this one.
LARGEST = 2**62

__all__ = [
    "LARGEST",
    "Index",
    "distinct",
    "distinct_rows",
    "examples",
    "looked_up",
    "pair_numbers",
    "stable_order",
    "which_of",
]


def stable_order(numbers: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the places of some numbers from 0 on in ascending order, those of equal ones as they stand.

    Example:
        >>> stable_order(np.array([7, 3, 7, 3])).tolist()
        [1, 3, 0, 2]
    """
    bits = len(numbers).bit_length()
    if int(numbers.max(initial=0)) >> (63 - bits):
        return np.argsort(numbers, kind="stable")
    # A number and its place as one number.
    both = numbers.astype(np.int64) << bits
    both |= np.arange(len(numbers))
    both.sort()
    both &= (1 << bits) - 1
    return both


def distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return each of some numbers once, ascending.

    Example:
        >>> distinct(np.array([7, 3, 7])).tolist()
        [3, 7]
    """
    ordered = np.sort(numbers)
    return ordered[_fresh(ordered)]


def examples(numbers: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a place of each distinct number, ascending by number, and which of them each number is.

    Example:
        >>> places, which = examples(np.array([7, 3, 7]))
        >>> places[0].tolist(), which.tolist()
        (1, [1, 0, 1])
    """
    order = np.argsort(numbers)
    fresh = _fresh(numbers[order])
    which = np.empty(len(order), np.int64)
    which[order] = np.cumsum(fresh) - 1
    return order[fresh], which


def distinct_rows(columns: Iterable[NDArray[np.integer[Any]]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a place of each distinct row of some columns, ascending, and which of them each row is.

    Args:
        columns: Of numbers from 0 on; rows times numbers stay below 2**62, as for those of states and tokens.

    Example:
        >>> places, which = distinct_rows([np.array([7, 3, 7]), np.array([1, 0, 1])])
        >>> places[0].tolist(), which.tolist()
        (1, [1, 0, 1])
    """
    key, bound = np.zeros(1, np.int64), 1
    for column in columns:
        size = 1 + int(column.max(initial=0))
        if bound * size > LARGEST:
            places, key = examples(key)
            bound = len(places)
        key, bound = key * size + column, bound * size
    return examples(key)


def pair_numbers(first: NDArray[np.integer[Any]], second: NDArray[np.integer[Any]]) -> NDArray[np.int32]:
    """Number the pairs of two columns of numbers from 0 on, that of zeros as 0.

    Example:
        >>> pair_numbers(np.array([0, 1, 1]), np.array([0, 0, 2])).tolist()
        [0, 1, 2]
    """
    if not first.any():
        return second.astype(np.int32)
    width = int(second.max()) + 1
    possible = (int(first.max()) + 1) * width
    # As numpy's own indices, which it would convert others to, twice.
    pairs = first.astype(np.int64) * width + second
    if possible > LARGEST_TABLE:
        met, inverse = np.unique(pairs, return_inverse=True)
        numbers: NDArray[np.int32] = inverse.ravel().astype(np.int32) + np.int32(met[0] != 0)
        return numbers
    seen = np.zeros(possible, bool)
    seen[pairs] = True
    seen[0] = True
    number: NDArray[np.int32] = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    found: NDArray[np.int32] = number.take(pairs)
    return found


def which_of(numbers: NDArray[np.integer[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each of some numbers from 0 on once, ascending, and which of them each number is.

    Example:
        >>> met, which = which_of(np.array([7, 3, 7]))
        >>> met.tolist(), which.tolist()
        ([3, 7], [1, 0, 1])
    """
    bound = int(numbers.max(initial=-1)) + 1
    if bound > SPARSE * len(numbers) + FEW:
        place, which = examples(numbers)
        return numbers[place].astype(np.int64), which
    seen = np.zeros(bound, bool)
    seen[numbers] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[numbers]


def looked_up(keys: NDArray[np.int64], values: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the values of some keys, given all keys, ascending, and their values; 0 for a key that is not among them.

    Example:
        >>> looked_up(np.array([3, 7]), np.array([30, 70]), np.array([7, 5])).tolist()
        [70, 0]
    """
    if not len(keys):
        return np.zeros(len(wanted), np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0)


class Index:
    """Values by key: of each key all of them, in their order.

    Args:
        key: The key of each value.
        keys: How many keys there may be.
        columns: The values.

    Attributes:
        counts: How many values each key has.
    """

    def __init__(self, key: NDArray[np.int64], keys: int, *columns: NDArray[Any]) -> None:
        order = stable_order(key)
        self.counts = np.bincount(key, minlength=keys)
        self._first = np.append(0, np.cumsum(self.counts))
        self._columns = [column[order].astype(np.int64) for column in columns]

    def under(self, keys: NDArray[Any]) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        """Return all values under some keys, and for each of them the index of its key."""
        place, owner = expand(self._first[keys], self.counts[keys])
        return owner, [column[place] for column in self._columns]


def _fresh(ordered: NDArray[np.integer[Any]]) -> NDArray[np.bool_]:
    fresh = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return fresh
