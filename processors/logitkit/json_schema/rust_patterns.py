r"""Patterns in the syntax of Rust's `regex`, with which pydantic matches, as ECMA-262 patterns.

ECMA's `\d` and `\w` are ASCII, so they describe a subset; what excludes them, such as `\D` and `[^\w]`, must exclude more.
"""

from __future__ import annotations

import re

from pydantic.errors import PydanticInvalidForJsonSchema

_PIECE = re.compile(r"\\[pPb]\{[^}]*\}|\\.|\(\?P<|\[\^?|\]|&&|--|~~|.", re.DOTALL)
# Supersets of what Rust and Python call digits, white space and word characters. Unassigned characters (Cn) may be digits or
# letters in another version of Unicode.
_DIGITS, _SPACE = r"\p{Nd}\p{Cn}", r"\s\x1c-\x1f\x85"
_WORD = r"\w\p{L}\p{M}\p{N}\p{Pc}\p{So}\p{Cn}\u200c\u200d"
# A word boundary, and a place without one. Next to a character in doubt there is neither.
_NO_WORD_BEFORE, _NO_WORD_AFTER = f"(?<![{_WORD}])", f"(?![{_WORD}])"
_EDGE = rf"(?:(?<=\w){_NO_WORD_AFTER}|{_NO_WORD_BEFORE}(?=\w))"
_NO_EDGE = rf"(?:(?<=\w)(?=\w)|{_NO_WORD_BEFORE}{_NO_WORD_AFTER})"
_BLANK = r"\t-\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

_OUTSIDE = {
    r"\D": f"[^{_DIGITS}]",
    r"\S": f"[^{_SPACE}]",
    r"\W": f"[^{_WORD}]",
    r"\s": f"[{_BLANK}]",
    r"\b": _EDGE,
    r"\B": _NO_EDGE,
    r"\A": "^",
    r"\z": "$",
    r"\Z": "$",
    "(?P<": "(?<",
}
# A class cannot have a negated one inside, so these name what is left.
_INSIDE = {
    r"\D": r"\x00-\/:-\x7f\p{L}\p{M}\p{P}\p{S}\p{Z}",
    r"\S": r"\x00-\x08\x0e-\x1b!-\x7f\p{L}\p{M}\p{N}\p{P}\p{S}",
    r"\W": r"\x00-\/:-@\[-\^\x60\{-\x7f\p{Ps}\p{Pe}\p{Po}\p{Sc}\p{Z}",
    r"\s": _BLANK,
}
_NEGATED = {r"\d": _DIGITS, r"\s": _SPACE, r"\S": r"\S\ufeff", r"\w": _WORD}


# Rust's operations on classes, which stand for themselves in ECMA-262, as its other word boundaries do.
_OPERATIONS = {"[", "[^", "&&", "--", "~~"}


def ecma_pattern(pattern: str) -> str:
    r"""Return an ECMA-262 pattern; the texts that it matches are texts that a pattern of Rust matches.

    Raises:
        PydanticInvalidForJsonSchema: It has syntax of Rust that means something else in ECMA-262.

    Example:
        >>> ecma_pattern(r"^(?P<year>\d+)\D[^\s]$")
        '^(?<year>\\d+)[^\\p{Nd}\\p{Cn}][^\\s\\x1c-\\x1f\\x85]$'
    """
    rules, written, before = _OUTSIDE, "", ""
    for piece in _PIECE.findall(pattern):
        inside = rules is not _OUTSIDE
        if piece.startswith((r"\b{", r"\<", r"\>")):
            raise PydanticInvalidForJsonSchema(f"the pattern {pattern!r} has {piece!r}, a word boundary")
        if inside and piece in _OPERATIONS:
            raise PydanticInvalidForJsonSchema(
                f"the pattern {pattern!r} has {piece!r} in a class of characters; write it with a backslash, or another class"
            )
        # The first character of a class does not end it.
        is_end = piece == "]" and before not in ("[", "[^")
        written += rules.get(piece, piece) if is_end or piece != "]" else r"\]"
        if not inside and piece in ("[", "[^"):
            rules = _NEGATED if piece == "[^" else _INSIDE
        elif is_end:
            rules = _OUTSIDE
        before = piece
    return written
