"""Numbers by which sets of pairs are compared: the sum of one pseudorandom number for each pair."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["mixed"]

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
