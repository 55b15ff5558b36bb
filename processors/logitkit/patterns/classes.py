"""Single characters and bracketed classes, with the flags applied."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from logitkit.errors import PatternSyntaxError
from logitkit.patterns.case_folding import case_table, fold, fold_class
from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.escapes import Escape, Property, read_escape
from logitkit.patterns.syntax import ASCII, DOTALL, IGNORECASE, Characters
from logitkit.patterns.unicode_classes import perl_class

Item: TypeAlias = int | tuple[int, int] | str | Property
r"""A member of a bracketed class: a code point, a range, the letter of a class such as `\d`, or a property."""

_FOLDING = ASCII | IGNORECASE
_ANY = Characters(ANY)
_IN_ASCII = CharSet(((0, 0x7F),))
_NOT_NEWLINE = Characters(~CharSet.single(0x0A))


def any_character(flags: int) -> Characters:
    """Return the set that `.` matches."""
    return _ANY if flags & DOTALL else _NOT_NEWLINE


def character(code_point: int, flags: int) -> Characters:
    """Return the set that a literal character matches: the character, and under `(?i)` its case variants."""
    return _character(code_point, flags & _FOLDING if flags & IGNORECASE else 0)


def escaped_class(letter: str, flags: int) -> Characters:
    r"""Return the set that `\d`, `\s`, `\w` or a negation of these matches."""
    return _escaped_class(letter, bool(flags & ASCII))


def property_characters(item: Property, flags: int) -> Characters:
    r"""Return the set that `\p{...}` matches; case variants under `(?i)`, and ASCII under `(?a)`, come before `\P` negates."""
    return Characters(_property(item, flags & _FOLDING))


def read_class(pattern: str, position: int, flags: int) -> tuple[Characters, int]:
    """Read a bracketed class.

    Args:
        pattern: The whole pattern.
        position: Index of the opening bracket.
        flags: The flags at that position.

    Returns:
        The set that the class matches, and the index after its closing bracket.

    Raises:
        PatternSyntaxError: The class is not closed, or contains a bad range or escape.

    Example:
        >>> read_class("[^b-y]", 0, 0)[0].charset.ranges
        ((0, 97), (122, 1114111))
    """
    length = len(pattern)
    negative = pattern.startswith("^", position + 1)
    at = position + 2 if negative else position + 1
    items: dict[Item, None] = {}
    while True:
        begin = at
        # A closing bracket in first position is a literal.
        if at < length and pattern[at] == "]" and items:
            break
        item: Item
        item, at = _read_item(pattern, at, position)
        if at < length and pattern[at] == "-":
            if pattern.startswith("]", at + 1):
                items[item] = None
                items[0x2D] = None
                at += 1
                break
            last, at = _read_item(pattern, at + 1, position)
            item = _range(item, last, pattern, begin, at)
        items[item] = None
    return _build(tuple(items), negative, flags & (ASCII | IGNORECASE)), at + 1


def _read_item(pattern: str, at: int, opening: int) -> tuple[Escape, int]:
    if at >= len(pattern):
        raise PatternSyntaxError(r"unterminated character set; for a literal [ write \[", pattern, opening)
    if pattern[at] == "\\":
        return read_escape(pattern, at, in_class=True)
    return ord(pattern[at]), at + 1


def _range(first: Escape, last: Escape, pattern: str, begin: int, end: int) -> tuple[int, int]:
    written = pattern[begin:end]
    if not isinstance(first, int) or not isinstance(last, int):
        reason = rf"bad character range {written}: a class cannot begin or end a range; for a literal - write \-"
        raise PatternSyntaxError(reason, pattern, begin)
    if last < first:
        raise PatternSyntaxError(f"bad character range {written}: its end comes before its start", pattern, begin)
    return first, last


@lru_cache(maxsize=8192)
def _character(code_point: int, flags: int) -> Characters:
    if flags and (matching := case_table(bool(flags & ASCII)).equivalents.get(code_point)):
        return Characters(CharSet.of((other, other) for other in matching))
    return Characters(CharSet.single(code_point))


@lru_cache(maxsize=16)
def _escaped_class(letter: str, ascii_only: bool) -> Characters:
    return Characters(perl_class(letter, ascii_only))


@lru_cache(maxsize=256)
def _build(items: tuple[Item, ...], negative: bool, flags: int) -> Characters:
    characters = [item for item in items if isinstance(item, int)]
    ranges = [item for item in items if isinstance(item, tuple)]
    if len(items) == len(characters) == 1:
        listed = character(characters[0], flags).charset
    elif flags & IGNORECASE:
        listed = fold_class(characters, ranges, bool(flags & ASCII))
    else:
        listed = CharSet.of([*((code_point, code_point) for code_point in characters), *ranges])
    named = tuple(item for item in items if isinstance(item, str | Property))
    if not named:
        return Characters(~listed if negative else listed)
    # Cached separately, because named classes have hundreds of ranges and occur in many patterns.
    classes = _named(named, negative, flags)
    return Characters(classes - listed if negative else classes | listed)


@lru_cache(maxsize=64)
def _named(items: tuple[str | Property, ...], negative: bool, flags: int) -> CharSet:
    ascii_only = bool(flags & ASCII)
    charset = CharSet.union(
        perl_class(item, ascii_only) if isinstance(item, str) else _property(item, flags) for item in items
    )
    return ~charset if negative else charset


@lru_cache(maxsize=256)
def _property(item: Property, flags: int) -> CharSet:
    charset = item.charset & _IN_ASCII if flags & ASCII else item.charset
    charset = fold(charset, bool(flags & ASCII)) if flags & IGNORECASE else charset
    return ~charset if item.negative else charset
