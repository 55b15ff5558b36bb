"""Ways to tell things apart by numbers: sets of pairs by the sum of one pseudorandom number for each, and rows by all columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.behaviours import Ints
from logitkit.compiler.bytes.sorting import examples

__all__ = ["distinct_triples", "joint_numbers", "mixed"]

# Pairs of two numbers up to here are told apart by a table, more of them by sorting.
MANY_PAIRS = 2**22

# Random odd numbers.
_A, _B, _C, _D = (
    np.uint64(n) for n in (0x9E6D62D06F6A9A9B, 0xD1342543DE82EF95, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def mixed(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a pseudorandom number of 64 bits for each pair of numbers.

    Source: Steele, Lea and Flood, Fast splittable pseudorandom number generators (2014), for the finalizer.
    """
    found = first.astype(np.uint64) * _A + second.astype(np.uint64) * _B
    found ^= found >> np.uint64(30)
    found *= _C
    found ^= found >> np.uint64(27)
    found *= _D
    found ^= found >> np.uint64(31)
    return found


def joint_numbers(first: Ints, second: Ints) -> Ints:
    """Number the pairs of two columns of numbers from 0 on, that of zeros as 0."""
    if not first.any():
        return second.astype(np.int32)
    width = int(second.max()) + 1
    many = (int(first.max()) + 1) * width
    # As numpy's own indices, which it would convert others to, twice.
    pairs = first.astype(np.int64) * width + second
    if many > MANY_PAIRS:
        distinct, inverse = np.unique(pairs, return_inverse=True)
        joint: NDArray[np.int32] = inverse.ravel().astype(np.int32) + np.int32(distinct[0] != 0)
        return joint
    seen = np.zeros(many, bool)
    seen[pairs] = True
    seen[0] = True
    number: NDArray[np.int32] = np.cumsum(seen, dtype=np.int32) - np.int32(1)
    found: Ints = number.take(pairs)
    return found


def distinct_triples(class_of: Ints, first: NDArray[np.uint64], second: NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Tell rows of a number and two signatures apart.

    Returns:
        One example of each group, and the group of each.
    """
    example, which = examples(first + mixed(class_of, class_of))
    columns = class_of.astype(np.uint64), first, second
    if any((column[example[which]] != column).any() for column in columns):
        # The first numbers were equal by chance.
        _, example, which = np.unique(np.stack(columns), axis=1, return_index=True, return_inverse=True)
    return example, which.ravel()
