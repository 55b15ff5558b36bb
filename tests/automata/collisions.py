"""Search for collisions of digests that are sums: choose a sign or 0 for each of some numbers, so that their sum is 0."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logitkit.vocabulary.ranges import expand

__all__ = ["NUMBERS", "zero_sum"]

# The numbers are cut into lists. The sums of two lists are joined where some bits of their sum are 0, and so on.
LISTS, LENGTH, CHOICES, BITS = 8, 16, 80_000, 16
NUMBERS = LISTS * LENGTH


def zero_sum(numbers: NDArray[np.uint64], seed: int = 0) -> NDArray[np.int64]:
    """Return -1, 0 or 1 for each number, not all 0, so that the sum of the products is 0 modulo 2**64.

    Takes about a fifth of a second.

    Args:
        numbers: At least `NUMBERS` random numbers; the others get 0.
        seed: The seed of the choices.

    Source: Wagner, A Generalized Birthday Problem (2002).
    """
    random = np.random.default_rng(seed)
    found = None
    while found is None:
        found = _tried(numbers, random)
    assert found.any()
    assert not (found.astype(np.uint64) * numbers).sum(dtype=np.uint64)
    return found


def _tried(numbers: NDArray[np.uint64], random: np.random.Generator) -> NDArray[np.int64] | None:
    """Return a solution, or None if there is none with some random choices."""
    signs = random.integers(-1, 2, (LISTS, CHOICES, LENGTH))
    parts = numbers[:NUMBERS].reshape(LISTS, LENGTH)
    sums = [(signs[i].astype(np.uint64) * parts[i]).sum(axis=1, dtype=np.uint64) for i in range(LISTS)]
    # The choices, one from each list, that each sum consists of.
    chosen = [np.arange(CHOICES)[:, None] for _ in range(LISTS)]
    for bits in (BITS, 2 * BITS, 64):
        pairs = range(0, len(sums), 2)
        joined = [_joined(sums[i], sums[i + 1], chosen[i], chosen[i + 1], bits) for i in pairs]
        sums, chosen = [one for one, _ in joined], [choices for _, choices in joined]
    if not len(sums[0]):
        return None
    found = np.zeros(len(numbers), np.int64)
    found[:NUMBERS] = signs[np.arange(LISTS), chosen[0][0]].ravel()
    return found


def _joined(
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    of_first: NDArray[np.int64],
    of_second: NDArray[np.int64],
    bits: int,
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """Return the sums of two lists whose last bits are 0, and the choices that they consist of."""
    mask = np.uint64(2**bits - 1)
    order = np.argsort(second & mask)
    keys, wanted = (second & mask)[order], (np.uint64(0) - first) & mask
    begin = np.searchsorted(keys, wanted)
    place, one = expand(begin, np.searchsorted(keys, wanted, side="right") - begin)
    other = order[place]
    return first[one] + second[other], np.concatenate([of_first[one], of_second[other]], axis=1)
