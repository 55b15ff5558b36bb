"""Group equal sets of pairs of numbers, thousands at once, such as the columns of tokens: pairs of a state and its target.

Sorting thousands of sets takes long. So each set gets a digest, the sum of one pseudorandom number per pair. Then sets with equal
digests are compared with each other, pair by pair.

By hand: of the sets {(2, 7)}, {(3, 7)}, {(2, 7)}, the first and the third have equal digests, and the comparison confirms that
they are equal. If the second had the same digest, the comparison would find 3 where it expects 2, and all sets would be grouped
by their contents instead.

Invariants: a digest only proposes that sets are equal, and the comparison decides. The digests are public, and an attacker who
can choose among a hundred pairs finds two different sets with equal sums within a second.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bytes.sorting import LARGEST, examples
from logitkit.compiler.bytes.transition_columns import Ints, starts
from logitkit.vocabulary.ranges import expand

__all__ = ["PairSets", "digest_of_pairs", "distinct_sets", "sums_by_run"]

# Random odd numbers.
_A, _B, _C, _D = (
    np.uint64(n) for n in (0x9E6D62D06F6A9A9B, 0xD1342543DE82EF95, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


class PairSets(NamedTuple):
    """Sets of pairs, one after another.

    Args:
        start: [N + 1] where each set begins.
        first: [M] the first number of each pair. Equal sets list their pairs in the same order.
        second: [M] the second number.
    """

    start: Ints
    first: Ints
    second: Ints

    @classmethod
    def collected(cls, owner: Ints, count: int, first: Ints, second: Ints) -> PairSets:
        """Collect pairs in any order.

        Args:
            owner: [M] the set of each pair.
            count: The number of sets.
            first: [M] the first numbers.
            second: [M] the second numbers.
        """
        # The three numbers of a pair are sorted as one number if it fits, which is ten times as fast.
        wide, wider = (1 + int(part.max(initial=0)) for part in (second, first))
        fits = count * wider * wide < LARGEST
        order = np.argsort((owner * wider + first) * wide + second) if fits else np.lexsort((second, first, owner))
        return cls(starts(np.bincount(owner, minlength=count)), first[order], second[order])

    def contents(self) -> list[bytes]:
        """Return each set as bytes, which are equal exactly for equal sets."""
        pairs = np.stack([self.first, self.second], axis=1).astype(np.int64).tobytes()
        bounds = (16 * self.start).tolist()
        return [pairs[a:b] for a, b in pairwise(bounds)]


def distinct_sets(
    digest: NDArray[np.uint64], kind: Ints, sets: PairSets
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Group equal sets. Each set also has a *kind*, a number that must be equal within a group.

    Args:
        digest: [N] the digests, which are equal for equal sets of one kind.
        kind: [N] the kinds.
        sets: The N sets.

    Returns:
        One example of each group, and [N] the group of each set. Groups are in the order of their digests. If two different sets
        have the same digest, groups are in the order in which they occur instead.

    Example:
        >>> sets = PairSets(np.array([0, 1, 2, 3]), np.array([2, 3, 2]), np.array([7, 7, 7]))
        >>> lie = np.zeros(3, np.uint64)
        >>> _, which = distinct_sets(lie, np.zeros(3, np.int64), sets)
        >>> which.tolist()
        [0, 1, 0]
    """
    example, which = examples(digest)
    if _all_equal(kind, sets, example[which]):
        return example, which
    number: dict[tuple[int, bytes], int] = {}
    which = np.array(
        [number.setdefault(each, len(number)) for each in zip(kind.tolist(), sets.contents(), strict=True)]
    )
    example = np.zeros(len(number), np.int64)
    example[which[::-1]] = np.arange(len(which))[::-1]
    return example, which


def _all_equal(kind: Ints, sets: PairSets, other: Ints) -> bool:
    """Return whether each set and the set at index `other` have equal pairs and kinds."""
    count = sets.start[1:] - sets.start[:-1]
    if not (np.array_equal(kind[other], kind) and np.array_equal(count[other], count)):
        return False
    place, _ = expand(sets.start[other], count)
    return np.array_equal(sets.first[place], sets.first) and np.array_equal(sets.second[place], sets.second)


def digest_of_pairs(first: NDArray[Any], second: NDArray[Any]) -> NDArray[np.uint64]:
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


def sums_by_run(numbers: NDArray[np.uint64], start: Ints) -> NDArray[np.uint64]:
    """Return the sum of each of some consecutive runs of numbers. A run may be empty."""
    # The sum of a run is a difference of two sums from the beginning, also where these have overflowed.
    total = np.append(np.zeros(1, np.uint64), np.cumsum(numbers))
    found: NDArray[np.uint64] = total[start[1:]] - total[start[:-1]]
    return found
