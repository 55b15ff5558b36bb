"""Sets of Unicode code points, as sorted disjoint ranges."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

MAX_CODE_POINT = 0x10FFFF
# A set with at least this many times fewer ranges is spliced into the other one, which is faster than merging both.
_FEWER = 16


@dataclass(frozen=True, slots=True)
class CharSet:
    """An immutable set of code points.

    Args:
        ranges: Inclusive `(first, last)` pairs, sorted, disjoint and not adjacent. For other ranges, use `CharSet.of`.

    Example:
        >>> digits = CharSet.of([(0x30, 0x39)])
        >>> 0x35 in digits, 0x61 in digits, 0x61 in ~digits
        (True, False, True)
    """

    ranges: tuple[tuple[int, int], ...] = ()
    # Cached, because hashing the 700 ranges of `\w` takes as long as parsing a pattern, and the compiler uses sets as keys.
    _hash: int | None = field(default=None, init=False, compare=False, repr=False)

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]]) -> CharSet:
        """Return the set of any inclusive ranges, sorted and merged."""
        merged: list[tuple[int, int]] = []
        end = -2
        for first, last in sorted(ranges):
            if first > end + 1:
                merged.append((first, last))
                end = last
            elif last > end:
                merged[-1] = (merged[-1][0], last)
                end = last
        return cls(tuple(merged))

    @classmethod
    def union(cls, charsets: Iterable[CharSet]) -> CharSet:
        """Return the union of many sets; ranges that several of them share are processed once."""
        return cls.of({pair for charset in dict.fromkeys(charsets) for pair in charset.ranges})

    @classmethod
    def single(cls, code_point: int) -> CharSet:
        """Return the set of one code point."""
        return _single(code_point)

    @classmethod
    def from_string(cls, characters: str) -> CharSet:
        """Return the set of the characters of a string."""
        return cls.of((ord(c), ord(c)) for c in characters)

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash(self.ranges))
        return self._hash  # type: ignore[return-value]

    def __contains__(self, code_point: int) -> bool:
        at = bisect_right(self.ranges, (code_point + 1, -1)) - 1
        return at >= 0 and code_point <= self.ranges[at][1]

    def __bool__(self) -> bool:
        return bool(self.ranges)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges:
            yield from range(first, last + 1)

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.ranges)

    def __or__(self, other: CharSet) -> CharSet:
        more, fewer = (self, other) if len(self.ranges) >= len(other.ranges) else (other, self)
        if len(fewer.ranges) * _FEWER > len(more.ranges):
            return CharSet.of((*more.ranges, *fewer.ranges))
        ranges = list(more.ranges)
        for first, last in fewer.ranges:
            begin, end = _touched(ranges, first - 1, last + 1)
            if begin < end:
                ranges[begin:end] = [(min(first, ranges[begin][0]), max(last, ranges[end - 1][1]))]
            else:
                ranges.insert(begin, (first, last))
        return CharSet(tuple(ranges)) if fewer.ranges else more

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
        common: list[tuple[int, int]] = []
        mine, others = self.ranges, other.ranges
        i = j = 0
        while i < len(mine) and j < len(others):
            first = max(mine[i][0], others[j][0])
            last = min(mine[i][1], others[j][1])
            if first <= last:
                common.append((first, last))
            if mine[i][1] < others[j][1]:
                i += 1
            else:
                j += 1
        return CharSet(tuple(common))

    def __sub__(self, other: CharSet) -> CharSet:
        if len(other.ranges) * _FEWER > len(self.ranges):
            return self & ~other
        ranges = list(self.ranges)
        for first, last in other.ranges:
            begin, end = _touched(ranges, first, last)
            if begin < end:
                rest = ((ranges[begin][0], first - 1), (last + 1, ranges[end - 1][1]))
                ranges[begin:end] = [pair for pair in rest if pair[0] <= pair[1]]
        return CharSet(tuple(ranges)) if other.ranges else self


def _touched(ranges: list[tuple[int, int]], first: int, last: int) -> tuple[int, int]:
    """Return the start and stop indices of the ranges with a code point from `first` to `last`."""
    begin = bisect_left(ranges, (first,))
    if begin and ranges[begin - 1][1] >= first:
        begin -= 1
    return begin, bisect_left(ranges, (last + 1,))


@lru_cache(maxsize=8192)
def _single(code_point: int) -> CharSet:
    return CharSet(((code_point, code_point),))


ANY = CharSet(((0, MAX_CODE_POINT),))
SURROGATES = CharSet(((0xD800, 0xDFFF),))
"""The halves of surrogate pairs, which stand for characters in UTF-16 and for none in UTF-8."""
