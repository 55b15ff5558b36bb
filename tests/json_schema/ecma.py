"""Patterns of ECMA-262 in the spelling of Python's `re`, apart from the code that is judged by it."""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache

_SPACE = r"\t\n\x0b\x0c\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_NOT_SPACE = (
    r"\x00-\x08\x0e-\x1f!-\x9f\xa1-\u167f\u1681-\u1fff\u200b-\u2027\u202a-\u202e\u2030-\u205e\u2060-\u2fff"
    r"\u3001-\ufefe\uff00-\U0010ffff"
)
# Inside brackets, then outside.
_CLASSES = {
    "d": ("0-9", "[0-9]"),
    "D": (r"\x00-/:-\U0010ffff", "[^0-9]"),
    "w": ("A-Za-z0-9_", "[A-Za-z0-9_]"),
    "W": (r"\x00-/:-@\[-^`{-\U0010ffff", "[^A-Za-z0-9_]"),
    "s": (_SPACE, f"[{_SPACE}]"),
    "S": (_NOT_SPACE, f"[^{_SPACE}]"),
}
_NAMES = {
    "Letter": "L",
    "digit": "Nd",
    "Uppercase_Letter": "Lu",
    "Lowercase_Letter": "Ll",
    "Number": "N",
    "Punctuation": "P",
}
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|c([A-Za-z])|([pP])\{([^}]*)\}|(.))", re.DOTALL
)


def python_pattern(pattern: str) -> str:
    """Return a pattern that `re.search` reads as ECMA-262 (flag u) reads the given one.

    Example:
        >>> python_pattern(r"^\\d$")
        '^[0-9](?!.|\\\\n)'
    """
    written, at, inside = [], 0, False
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            found = _ESCAPE.match(pattern, at)
            assert found, f"a pattern ends in a backslash: {pattern}"
            written.append(_escaped(found, inside=inside))
            at = found.end()
            continue
        at += 1
        if inside:
            inside = character != "]"
            written.append(rf"\{character}" if character in "[&~|" else character)
        elif character == "[":
            inside = True
            empty = next((e for e in ("[]", "[^]") if pattern.startswith(e, at - 1)), None)
            if empty:
                written.append(r"[\s\S]" if empty == "[^]" else r"[^\s\S]")
                at += len(empty) - 1
                inside = False
            else:
                written.append("[^" if pattern.startswith("^", at) else "[")
                at += pattern.startswith("^", at)
        else:
            written.append({"$": r"(?!.|\n)", ".": r"[^\n\r\u2028\u2029]"}.get(character, character))
    return re.sub(r"\(\?<(?![=!])", "(?P<", "".join(written))


def _escaped(found: re.Match[str], *, inside: bool) -> str:
    braced, four, two, control, sign, name, other = found.groups()
    if braced or four or two:
        return rf"\U{int(braced or four or two, 16):08x}"
    if control:
        return rf"\x{ord(control) % 32:02x}"
    if sign:
        ranges = _property(name)
        if sign == "p":
            return ranges if inside else f"[{ranges}]"
        assert not inside, "no pattern here has a negated property in a class"
        return f"[^{ranges}]"
    if other in _CLASSES:
        return _CLASSES[other][0 if inside else 1]
    if other in "bB":
        return r"\x08" if inside else rf"(?a:\{other})"
    if other in "tnvfr0":
        return {"t": r"\t", "n": r"\n", "v": r"\x0b", "f": r"\x0c", "r": r"\r", "0": r"\x00"}[other]
    return rf"\{other}" if not other.isalnum() or other.isdigit() else other


@cache
def _property(name: str) -> str:
    key, _, value = name.rpartition("=")
    category = _NAMES.get(value, value)
    assert key in {"", "gc", "General_Category"}, f"this table does not know {name}"
    assert len(category) <= 2, f"this table does not know {name}"
    ranges: list[list[int]] = []
    for code in range(sys.maxunicode + 1):
        if unicodedata.category(chr(code)).startswith(category):
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1][1] = code
            else:
                ranges.append([code, code])
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in ranges)
