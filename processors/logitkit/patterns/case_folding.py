"""Case-insensitive sets, with exactly the case equivalences of Python's `re`.

`re` compares the lowercase of a character with the lowercase of the pattern's characters. In Unicode patterns, it also accepts
other lowercase characters with the same uppercase (`ſ` for `s`, `ς` for `σ`). Lowercase and uppercase are always one character:
the first of the result of `str.lower` or `str.upper`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from logitkit.patterns.charset import MAX_CODE_POINT, CharSet
from logitkit.patterns.unicode_classes import ASSIGNED_PLANES, code_points

# Whether this `re` lowercases characters beyond the Basic Multilingual Plane in classes, as from Python 3.14 on.
LOWERCASES_ALL = re.fullmatch("[\U00010400a]", "\U00010400", re.IGNORECASE) is not None

_BMP_LAST = 0xFFFF
_BLOCK = 256
# Shorter ranges than this are folded character by character.
_SHORT = 8

_CodePoints = npt.NDArray[np.int64]


class CaseTable(NamedTuple):
    """The cased characters of Unicode, or of ASCII.

    Args:
        equivalents: Maps a cased code point to all code points that it matches, including itself.
        lower: Maps a code point to its lowercase, if that differs.
        pairs: [2, pairs] The equivalents as columns `(code point, other)`, sorted, without pairs of equal code points.
    """

    equivalents: dict[int, tuple[int, ...]]
    lower: dict[int, int]
    pairs: _CodePoints


def folded(text: str) -> str:
    """Return a text in which characters are equal if they differ only in case; it has as many characters.

    Example:
        >>> folded("\u212aB") == folded("kb"), folded("\u00df") == folded("ss")
        (True, False)
    """
    equivalents = case_table(ascii_only=False).equivalents
    return "".join(chr(min(equivalents.get(ord(character), (ord(character),)))) for character in text)


def fold(charset: CharSet, ascii_only: bool) -> CharSet:
    """Return all characters that differ from one of the set only in case.

    Example:
        >>> sorted(map(chr, fold(CharSet.from_string("k"), ascii_only=False)))
        ['K', 'k', '\u212a']
    """
    table = case_table(ascii_only)
    added: list[int] = []
    for first, last in charset.ranges:
        if last - first < _SHORT:
            for code_point in range(first, last + 1):
                added.extend(table.equivalents.get(code_point, ()))
        else:
            begin, end = np.searchsorted(table.pairs[0], (first, last + 1))
            others = table.pairs[1, begin:end]
            added.extend(others[(others < first) | (others > last)].tolist())
    return charset | CharSet.of((code_point, code_point) for code_point in set(added))


def fold_class(characters: Iterable[int], ranges: Iterable[tuple[int, int]], ascii_only: bool) -> CharSet:
    """Return the set that characters and ranges inside brackets match under `(?i)`.

    Beyond the Basic Multilingual Plane, `re` follows other rules, which are reproduced here, because every text must also match
    in `re`. A range matches a character if it contains the character's lowercase or the Unicode uppercase of that. Single
    characters match all that have the same lowercase. Before Python 3.14, such ranges ignored `(?a)`, and single characters were
    not lowercased, so uppercase ones matched nothing.
    """
    table = case_table(ascii_only)
    low = [(first, min(last, _BMP_LAST)) for first, last in ranges if first <= _BMP_LAST]
    high = CharSet.of(pair for pair in ranges if pair[1] > _BMP_LAST)
    found = list(high.ranges)
    for character in characters:
        if character <= _BMP_LAST:
            low.append((character, character))
        elif LOWERCASES_ALL or character not in table.lower:
            lowercase = table.lower.get(character, character)
            matching = table.equivalents.get(lowercase, (lowercase,))
            found.extend((c, c) for c in matching if table.lower.get(c, c) == lowercase)
    for first, last in [] if ascii_only and LOWERCASES_ALL else high.ranges:
        code_point, lower, upper = _cases(ascii_only)
        inside = ((lower >= first) & (lower <= last)) | ((upper >= first) & (upper <= last))
        outside = inside & ((code_point < first) | (code_point > last))
        found.extend((c, c) for c in code_point[outside].tolist())
    return fold(CharSet.of(low), ascii_only) | CharSet.of(found)


@lru_cache(maxsize=2)
def case_table(ascii_only: bool) -> CaseTable:
    """Return the case equivalences of Unicode or of ASCII, computed on first use (about 20 ms)."""
    lower: dict[int, int] = {}
    same_upper: dict[str, set[int]] = {}
    matching: dict[int, list[int]] = {}
    characters = list(_cased_characters(0x7F if ascii_only else MAX_CODE_POINT))
    for character in characters:
        code_point, low = ord(character), character.lower()[0]
        if low != character:
            lower[code_point] = ord(low)
        same_upper.setdefault(low.upper(), set()).add(ord(low))
        matching.setdefault(ord(low), []).append(code_point)
    equivalents: dict[int, tuple[int, ...]] = {}
    for character in characters:
        targets = same_upper[character.lower()[0].upper()]
        equivalents[ord(character)] = tuple(sorted(c for t in targets for c in matching.get(t, [t])))
    pairs = [(c, other) for c, matched in equivalents.items() for other in matched if other != c]
    return CaseTable(equivalents, lower, np.array(pairs, dtype=np.int64).T)


@lru_cache(maxsize=2)
def _cases(ascii_only: bool) -> _CodePoints:
    """Return [3, cased]: a cased code point of Unicode, its lowercase, and the Unicode uppercase of that."""
    lower = case_table(ascii_only).lower
    rows = [
        (ord(c), low, ord(chr(low).upper()[0]))
        for c in _cased_characters(MAX_CODE_POINT)
        for low in (lower.get(ord(c), ord(c)),)
    ]
    return np.array(rows, dtype=np.int64).T


def _cased_characters(limit: int) -> Iterator[str]:
    for first, last in ASSIGNED_PLANES:
        text = code_points(first, min(last, limit))
        for begin in range(0, len(text), _BLOCK):
            block = text[begin : begin + _BLOCK]
            # Almost all blocks contain no cased characters; this skips them at the speed of C.
            if not block.lower() == block == block.upper():
                yield from (c for c in block if not c.lower() == c == c.upper())
