r"""Escapes: a backslash and the characters after it, inside and outside brackets, with the names inside of `\\p{...}`."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from logitkit.errors import PatternSyntaxError
from logitkit.patterns.charset import ANY, MAX_CODE_POINT, CharSet
from logitkit.patterns.unicode_classes import category_class
from logitkit.patterns.unicode_scripts import ALIASES, CATEGORIES, RANGES

# `L&` is another name of the cased letters.
_BY_NAME = {**CATEGORIES, "L&": "LC"}
_CATEGORY_KEYS = ("GC", "GENERALCATEGORY", "CATEGORY")
_SCRIPT_KEYS = ("SC", "SCRIPT")
_SPECIAL = {"ANY": ANY, "ASCII": CharSet(((0, 0x7F),))}


@lru_cache(maxsize=256)
def property_class(name: str) -> CharSet | None:
    r"""Return the characters that `\p{name}` matches, or None if there is no such property.

    Args:
        name: A general category (`Lu`, `Uppercase_Letter`, `gc=Lu`), a script (`Greek`, `Script=Greek`, `sc=Grek`), `Any`,
            `ASCII` or `Assigned`. Case, spaces, `_` and `-` are ignored.

    Example:
        >>> ord("π") in property_class("Greek"), ord("π") in property_class("Lu")
        (True, False)
    """
    key, equals, value = name.replace("_", "").replace("-", "").replace(" ", "").upper().partition("=")
    if not equals:
        value = key
    if not equals and value in _SPECIAL:
        return _SPECIAL[value]
    if not equals and value == "ASSIGNED":
        return ~category_class("Cn")
    if (not equals or key in _CATEGORY_KEYS) and value in _BY_NAME:
        return category_class(_BY_NAME[value])
    if (not equals or key in _SCRIPT_KEYS) and (ranges := RANGES.get(ALIASES.get(value, value))) is not None:
        return _script_class(ranges)
    return None


def _script_class(ranges: str) -> CharSet:
    pairs = (text.partition("-") for text in ranges.split())
    return CharSet(tuple((int(first, 16), int(last or first, 16)) for first, _, last in pairs))


@dataclass(frozen=True, slots=True)
class Property:
    r"""`\p{...}`, or with `\P` or `^` its negation, a separate field, because flags change the set before it is negated."""

    charset: CharSet
    negative: bool


Escape = int | str | Property
r"""A code point; the letter of a class (`d`, `W`, ...) or an anchor (`A`, `Z`, `b`, `B`); or a property."""

_CONTROLS = {"a": 0x07, "b": 0x08, "f": 0x0C, "n": 0x0A, "r": 0x0D, "t": 0x09, "v": 0x0B, "\\": 0x5C}
_CLASSES = frozenset("dDsSwW")
_ANCHORS = frozenset("AZbB")
_HEX_LENGTHS = {"x": 2, "u": 4, "U": 8}
_HEX = re.compile(r"[0-9a-fA-F]*")
# ECMA-262 has \u{...}, and Rust's `regex` also \x{...} and \U{...}; `re` has no such escapes.
_BRACED_HEX = re.compile(r"\{([0-9a-fA-F]+)\}")
_OCTAL = re.compile(r"[0-7]{1,3}")
_LAST_OCTAL = 0o377

_INSTEAD = {
    "z": r"; write \Z",
    "G": r"; write \A, or leave it out",
    "h": r"; write [ \t]",
    "H": r"; write [^ \t]",
    "R": r"; write (?:\r\n|[\n\v\f\r\x85\u2028\u2029])",
    "X": r"; write the characters out, for instance \P{M}\p{M}*",
    "K": "; write a lookbehind (?<=...)",
    "e": r"; write \x1b",
    "c": r"; a control character is written \c and a letter A to Z, or \x and two hexadecimal digits",
    "o": r"; write \x and two hexadecimal digits",
    "Q": "; escape each special character with a backslash",
    "E": "; escape each special character with a backslash",
    "g": "; backreferences are not supported, because their language is not regular",
    "k": "; backreferences are not supported, because their language is not regular",
}


def read_escape(pattern: str, position: int, in_class: bool, groups: int = 0) -> tuple[Escape, int]:
    r"""Read one escape.

    Args:
        pattern: The whole pattern.
        position: Index of the backslash.
        in_class: Whether the escape is inside brackets, where anchors and references have no meaning.
        groups: The number of capturing groups opened so far, which distinguishes references from mistakes.

    Returns:
        The meaning of the escape, and the index after it.

    Raises:
        PatternSyntaxError: The escape is unknown, incomplete or a backreference.

    Example:
        >>> read_escape(r"\x41b", 0, in_class=False)
        (65, 4)
        >>> read_escape(r"\u{1F600}", 0, in_class=False)
        (128512, 9)
    """
    letter = pattern[position + 1 : position + 2]
    after = position + 2
    if letter in _CLASSES and letter:
        return letter, after
    if not in_class and letter in _ANCHORS and letter:
        return letter, after
    if letter in _CONTROLS:
        return _CONTROLS[letter], after
    if not letter:
        raise PatternSyntaxError(r"bad escape (end of pattern); write \\ for a backslash", pattern, position)
    if letter in _HEX_LENGTHS:
        return _hexadecimal(pattern, position)
    # ECMA-262 has it, Rust's `regex` does not.
    if letter == "c" and (control := pattern[after : after + 1]).isascii() and control.isalpha():
        return ord(control) & 0x1F, after + 1
    if letter in "NpP":
        return _named(pattern, position) if letter == "N" else _property(pattern, position)
    if letter in "0123456789":
        return _octal_in_class(pattern, position) if in_class else _octal(pattern, position, groups)
    if letter.isascii() and letter.isalpha():
        where = " inside brackets" if in_class and letter in _ANCHORS else ""
        reason = f"bad escape \\{letter}{where}{_INSTEAD.get(letter, '')}"
        raise PatternSyntaxError(reason, pattern, position)
    return ord(letter), after


def _hexadecimal(pattern: str, position: int) -> tuple[int, int]:
    braced = _BRACED_HEX.match(pattern, position + 2)
    if braced is not None and int(braced[1], 16) <= MAX_CODE_POINT:
        return int(braced[1], 16), braced.end()
    if braced is not None:
        reason = f"bad escape {pattern[position : braced.end()]}: the greatest code point is 10FFFF"
        raise PatternSyntaxError(reason, pattern, position)
    if pattern[position + 2 : position + 3] == "{":
        reason = f"incomplete escape {pattern[position : position + 3]}: 1 to 6 hexadecimal digits and }} wanted"
        raise PatternSyntaxError(reason, pattern, position)
    wanted = _HEX_LENGTHS[pattern[position + 1]]
    found = _HEX.match(pattern, position + 2, position + 2 + wanted)
    assert found is not None
    if len(found[0]) != wanted:
        given = pattern[position : found.end()]
        raise PatternSyntaxError(f"incomplete escape {given}: {wanted} hexadecimal digits wanted", pattern, position)
    value = int(found[0], 16)
    if value > MAX_CODE_POINT:
        raise PatternSyntaxError(f"bad escape \\U{found[0]}: the last code point is 0010FFFF", pattern, position)
    return value, found.end()


def _named(pattern: str, position: int) -> tuple[int, int]:
    name, after = _braced(pattern, position, r"\N", "character name", r"\N{EM DASH}")
    try:
        return ord(unicodedata.lookup(name)), after
    except (KeyError, TypeError):
        raise PatternSyntaxError(f"undefined character name {name!r}", pattern, position) from None


def _property(pattern: str, position: int) -> tuple[Property, int]:
    escape = pattern[position : position + 2]
    name, after = _braced(pattern, position, escape, "property name", f"{escape}{{Lu}}")
    charset = property_class(name.removeprefix("^"))
    if charset is None:
        reason = (
            f"property {name!r} is not supported; write a general category such as Lu or a script such as Script=Greek"
        )
        raise PatternSyntaxError(reason, pattern, position)
    return Property(charset, (escape == r"\P") != name.startswith("^")), after


def _braced(pattern: str, position: int, escape: str, what: str, example: str) -> tuple[str, int]:
    if pattern[position + 2 : position + 3] != "{":
        raise PatternSyntaxError(f"missing {{ after {escape}; write for instance {example}", pattern, position)
    end = pattern.find("}", position + 3)
    if end < 0:
        raise PatternSyntaxError(f"missing }}, unterminated {what}", pattern, position)
    if end == position + 3:
        raise PatternSyntaxError(f"missing {what}", pattern, position)
    return pattern[position + 3 : end], end + 1


def _octal_in_class(pattern: str, position: int) -> tuple[int, int]:
    found = _OCTAL.match(pattern, position + 1)
    if found is None:
        raise PatternSyntaxError(f"bad escape {pattern[position : position + 2]}", pattern, position)
    return _octal_value(pattern, position, found[0])


def _octal(pattern: str, position: int, groups: int) -> tuple[int, int]:
    found = _OCTAL.match(pattern, position + 1)
    # Without a leading zero, only three octal digits are a character; anything else is a group reference.
    if found is not None and (found[0][0] == "0" or len(found[0]) == 3):
        return _octal_value(pattern, position, found[0])
    digits = pattern[position + 1 : position + 3]
    number = int(digits) if digits.isascii() and digits.isdigit() else int(digits[0])
    if number > groups:
        reason = f"invalid group reference {number}; for a character by its octal number write \\0 and two digits"
    else:
        reason = (
            f"backreference \\{number} is not supported, because its language is not regular; "
            "write out the texts that it may repeat"
        )
    raise PatternSyntaxError(reason, pattern, position)


def _octal_value(pattern: str, position: int, digits: str) -> tuple[int, int]:
    value = int(digits, 8)
    if value > _LAST_OCTAL:
        raise PatternSyntaxError(f"octal escape \\{digits} is outside of 0 to 0o377; write \\u...", pattern, position)
    return value, position + 1 + len(digits)
