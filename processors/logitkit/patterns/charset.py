"""Sets of Unicode code points, as sorted disjoint ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MAX_CODE_POINT = 0x10FFFF


@dataclass(frozen=True, slots=True)
class CharSet:
    """An immutable set of code points.

    Args:
        ranges: Inclusive `(first, last)` pairs, sorted, disjoint and not adjacent. Use `CharSet.of` for others.

    Example:
        >>> digits = CharSet.of([(0x30, 0x39)])
        >>> 0x35 in digits, 0x61 in digits, 0x61 in ~digits
        (True, False, True)
    """

    ranges: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> CharSet:
        """Sort and merge any inclusive ranges."""
        merged: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if merged and first <= merged[-1][1] + 1:
                if last > merged[-1][1]:
                    merged[-1] = (merged[-1][0], last)
            else:
                merged.append((first, last))
        return cls(tuple(merged))

    @classmethod
    def from_string(cls, characters: str) -> CharSet:
        """Return the set of the characters of a string."""
        return cls.of((ord(c), ord(c)) for c in characters)

    def __contains__(self, code_point: int) -> bool:
        return any(first <= code_point <= last for first, last in self.ranges)

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet.of((*self.ranges, *other.ranges))

    def __invert__(self) -> CharSet:
        gaps: list[tuple[int, int]] = []
        begin = 0
        for first, last in self.ranges:
            if first > begin:
                gaps.append((begin, first - 1))
            begin = last + 1
        if begin <= MAX_CODE_POINT:
            gaps.append((begin, MAX_CODE_POINT))
        return CharSet(tuple(gaps))

    def __and__(self, other: CharSet) -> CharSet:
        return ~(~self | ~other)

    def __sub__(self, other: CharSet) -> CharSet:
        return ~(~self | other)


ANY = CharSet(((0, MAX_CODE_POINT),))
