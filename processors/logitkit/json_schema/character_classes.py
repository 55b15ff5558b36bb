"""Classes of characters as ECMA-262 patterns write them, and characters that are equal but for case."""

from __future__ import annotations

from functools import cache

from logitkit.patterns.case_folding import case_table
from logitkit.patterns.charset import CharSet
from logitkit.patterns.unicode_classes import category_class

__all__ = ["certain_variants", "possible_variants", "ranges", "written"]

_SPECIAL = frozenset("\\^$.*+?()[]{}|/-")


def written(code_point: int) -> str:
    r"""Return a character outside of a class.

    Example:
        >>> print(written(ord("a")), written(ord(".")), written(0x0A))
        a \. \x0a
    """
    character = chr(code_point)
    return "\\" + character if character in _SPECIAL else _end(code_point)


def ranges(charset: CharSet) -> str:
    r"""Return the inside of a class.

    Example:
        >>> print(ranges(CharSet.of([(0x2D, 0x2D), (0x61, 0x7A), (0x2028, 0x2028)])))
        \x2da-z\u{2028}
    """
    return "".join(_end(first) if first == last else f"{_end(first)}-{_end(last)}" for first, last in charset.ranges)


def _end(code_point: int) -> str:
    character = chr(code_point)
    if character.isprintable() and character not in _SPECIAL:
        return character
    return rf"\x{code_point:02x}" if code_point < 0x100 else rf"\u{{{code_point:x}}}"


def certain_variants(charset: CharSet) -> CharSet:
    """Return a set with the characters that are equal to one of it in every version of Unicode from this one on.

    Example:
        >>> sorted(map(chr, certain_variants(CharSet.from_string("s1"))))
        ['1', 'S', 's', '\u017f']
    """
    certain, _ = _variants()
    return charset | CharSet.of((v, v) for c, variants in certain.items() if c in charset for v in variants)


def possible_variants(charset: CharSet) -> CharSet:
    """Return a set with the characters of this version of Unicode that may be equal to one of it in another version.

    Example:
        >>> sorted(map(chr, possible_variants(CharSet.from_string("s1"))))
        ['1', 'S', 's', '\u017f']
    """
    _, possible = _variants()
    found = charset | CharSet.of((v, v) for c, variants in possible.items() if c in charset for v in variants)
    # A character that is not assigned in this version may be a letter in another, and the other case of any.
    return found | _letters() if charset & category_class("Cn") else found


@cache
def _letters() -> CharSet:
    """Return a superset of the characters that have case."""
    return CharSet.union(map(category_class, ("L", "M", "N", "So")))


@cache
def _variants() -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """Return the variants of each cased character: those of this version of Unicode, and those of any."""
    same: dict[str, set[int]] = {}
    alike: dict[str, set[int]] = {}
    cased = [chr(c) for c in case_table(ascii_only=False).equivalents]
    for character in cased:
        folded = character.casefold()
        # A character that folds to several by the full folding folds to its lowercase by the simple one.
        simple = folded if len(folded) == 1 else character.lower() if len(character.lower()) == 1 else character
        same.setdefault(simple, set()).add(ord(character))
        for form in {folded, character.lower(), character.upper(), simple}:
            alike.setdefault(form, set()).add(ord(character))
    certain = {ord(c): group for group in same.values() for c in map(chr, group)}
    possible: dict[int, set[int]] = {}
    for group in alike.values():
        for code_point in group:
            possible.setdefault(code_point, set()).update(group)
    return certain, possible
