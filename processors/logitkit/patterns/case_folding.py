"""Case-insensitive sets, with exactly the equivalences of Python's `re`.

`re` compares the lowercase of a character with a set that holds the lowercase of what was written, and, in
Unicode, the other lowercase characters with the same uppercase (`ſ` beside `s`, `ς` beside `σ`). Lowercase
and uppercase are one character each: the first of what `str.lower` and `str.upper` give.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from logitkit.patterns.charset import MAX_CODE_POINT, CharSet
from logitkit.patterns.unicode_classes import ASSIGNED_PLANES, code_points

_BMP_LAST = 0xFFFF
_BLOCK = 256


class CaseTable(NamedTuple):
    """The cased characters of Unicode, or of ASCII.

    Args:
        cased: Sorted code points that are equivalent to another one, or whose uppercase differs.
        equivalents: From such a code point to all that it matches, itself included.
        lower: From a code point to its lowercase, where that differs.
        upper: From a code point to its uppercase, where that differs.
    """

    cased: list[int]
    equivalents: dict[int, tuple[int, ...]]
    lower: dict[int, int]
    upper: dict[int, int]


def fold(charset: CharSet, ascii_only: bool) -> CharSet:
    """Return all characters that differ from one of the set only by case.

    Example:
        >>> sorted(map(chr, fold(CharSet.from_string("k"), ascii_only=False)))
        ['K', 'k', '\u212a']
    """
    table = case_table(ascii_only)
    added: list[tuple[int, int]] = []
    for first, last in charset.ranges:
        for code_point in table.cased[bisect_left(table.cased, first) : bisect_right(table.cased, last)]:
            added.extend((other, other) for other in table.equivalents[code_point])
    return CharSet.of((*charset.ranges, *added)) if added else charset


def fold_class_range(first: int, last: int, ascii_only: bool) -> CharSet:
    """Return what a range inside brackets matches under `(?i)`.

    `re` folds ranges beyond the Basic Multilingual Plane by another rule (a character matches if its
    lowercase, or the uppercase of that, is in the range, also under `(?a)`); the result must be the same
    here.
    """
    if last <= _BMP_LAST:
        return fold(CharSet(((first, last),)), ascii_only)
    table, upper = case_table(ascii_only), case_table(ascii_only=False).upper
    found = [(first, last)]
    if first <= _BMP_LAST:
        found.extend(fold(CharSet(((first, _BMP_LAST),)), ascii_only).ranges)
    for code_point in case_table(ascii_only=False).cased:
        lower = table.lower.get(code_point, code_point)
        if first <= lower <= last or first <= upper.get(lower, lower) <= last:
            found.append((code_point, code_point))
    return CharSet.of(found)


def fold_class_character(code_point: int, ascii_only: bool) -> CharSet:
    """Return what a character among others inside brackets matches under `(?i)`.

    There `re` does not take the lowercase of characters beyond the Basic Multilingual Plane: an uppercase one
    matches nothing. Generated text must match in `re`, so this is kept.
    """
    if code_point <= _BMP_LAST:
        return fold(CharSet.single(code_point), ascii_only)
    table = case_table(ascii_only)
    if code_point in table.lower:
        return CharSet()
    return CharSet.from_string(
        "".join(
            chr(c)
            for c in table.equivalents.get(code_point, (code_point,))
            if table.lower.get(c, c) == code_point
        )
    )


@lru_cache(maxsize=2)
def case_table(ascii_only: bool) -> CaseTable:
    """Return the case equivalences of Unicode or of ASCII, computed on first use (some 20 ms)."""
    lower: dict[int, int] = {}
    upper: dict[int, int] = {}
    same_upper: dict[str, set[int]] = {}
    for character in _cased_characters(0x7F if ascii_only else MAX_CODE_POINT):
        low, up = character.lower(), character.upper()
        if low != character:
            lower[ord(character)] = ord(low[0])
        if up != character:
            upper[ord(character)] = ord(up[0])
        same_upper.setdefault(low[0].upper(), set()).add(ord(low[0]))
    matching: dict[int, list[int]] = {}
    for code_point in sorted({*lower, *upper}):
        matching.setdefault(lower.get(code_point, code_point), []).append(code_point)
    equivalents: dict[int, tuple[int, ...]] = {}
    for code_point in sorted({*lower, *upper}):
        low = chr(lower.get(code_point, code_point))
        targets = same_upper[low.upper()] | {ord(low)}
        equivalents[code_point] = tuple(
            sorted(c for target in targets for c in matching.get(target, [target]))
        )
    return CaseTable(sorted(equivalents), equivalents, lower, upper)


def _cased_characters(limit: int) -> Iterator[str]:
    for first, last in ASSIGNED_PLANES:
        text = code_points(first, min(last, limit))
        for begin in range(0, len(text), _BLOCK):
            block = text[begin : begin + _BLOCK]
            # Nearly all blocks have no case at all; those are passed over at the speed of C.
            if not block.lower() == block == block.upper():
                yield from (c for c in block if not c.lower() == c == c.upper())
