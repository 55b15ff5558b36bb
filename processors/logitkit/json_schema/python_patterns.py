r"""Patterns of Python's `re`, with which pydantic matches if a model says so, as ECMA-262 patterns of the same texts."""

from __future__ import annotations

import re

from pydantic.errors import PydanticUserError

from logitkit.compiler.characters.assertions import without_anchors
from logitkit.json_schema.character_classes import ranges
from logitkit.patterns.charset import ANY, SURROGATES, CharSet
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Alternate, Anchor, Characters, Concat, Empty, Look, Node, Repeat
from logitkit.patterns.unicode_classes import perl_class

__all__ = ["python_as_ecma"]

_FLAGS = {"a": re.ASCII, "i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
# A set with more ranges is written in terms of these, which have hundreds.
_LONG = 40
_CLASSES = {"w": r"\p{L}\p{N}_", "d": r"\p{Nd}"}


def python_as_ecma(pattern: str | re.Pattern[str]) -> str:
    r"""Return an ECMA-262 pattern that is found in the same texts.

    Raises:
        PatternSyntaxError: The pattern is not regular.
        PydanticUserError: It has an atomic group, which ECMA-262 has not.

    Example:
        >>> python_as_ecma(re.compile(r"^a b$", re.X | re.I))
        '^[Aa][Bb](?:$|(?=[\\x0a]$))'
    """
    if isinstance(pattern, str):
        return _written(parse(pattern), pattern)
    letters = "".join(letter for letter, flag in _FLAGS.items() if pattern.flags & flag)
    return _written(parse(f"(?{letters}){pattern.pattern}" if letters else pattern.pattern), pattern.pattern)


def _written(node: Node, pattern: str) -> str:
    match node:
        case Empty():
            return ""
        case Characters(charset):
            return _class(charset - SURROGATES)
        case Concat(parts):
            return "".join(
                _grouped(part, pattern) if isinstance(part, Alternate) else _written(part, pattern) for part in parts
            )
        case Alternate(options):
            return "|".join(_written(option, pattern) for option in options)
        case Repeat(inner, minimum, maximum):
            return f"{_grouped(inner, pattern)}{{{minimum},{'' if maximum is None else maximum}}}"
        case Look(inner, behind, negative):
            return f"(?{'<' if behind else ''}{'!' if negative else '='}{_written(inner, pattern)})"
        case Anchor():
            return _anchor(node, pattern)
    raise PydanticUserError(f"the pattern {pattern!r} has an atomic group or a possessive quantifier", code=None)


def _anchor(anchor: Anchor, pattern: str) -> str:
    match anchor:
        case Anchor("text_start"):
            return "^"
        case Anchor("text_end"):
            return "$"
        case Anchor("final", position):
            line_end = Look(
                Concat((Characters(CharSet.single(10)), Anchor("text_end", position))), False, False, position
            )
            return _grouped(Alternate((Anchor("text_end", position), line_end)), pattern)
        case _:
            return _grouped(without_anchors(anchor), pattern)


def _grouped(node: Node, pattern: str) -> str:
    return _written(node, pattern) if isinstance(node, Characters) else f"(?:{_written(node, pattern)})"


def _class(charset: CharSet) -> str:
    """Return a class of characters."""
    if charset == ANY - SURROGATES:
        return "[^]"
    if len(charset.ranges) <= _LONG:
        return f"[{ranges(charset)}]"
    outside = ANY - SURROGATES - charset
    for letter, written in _CLASSES.items():
        named = perl_class(letter, ascii_only=False)
        if not named - charset:
            return f"[{written}{ranges(charset - named)}]"
        if not named - outside:
            return f"[^{written}{ranges(outside - named)}]"
    return f"[{ranges(charset)}]"
