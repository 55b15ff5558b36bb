"""Groups and quantifiers: an opening parenthesis with what defines the kind of group, and `*`, `+`, `?` and `{m,n}`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from logitkit.errors import PatternSyntaxError
from logitkit.patterns.syntax import ASCII, LETTERS

# The largest count that `re` accepts is one less.
COUNT_LIMIT = 0xFFFFFFFF

_BRACES = re.compile(r"\{(?:([0-9]+)|([0-9]*),([0-9]*))\}")
SIGNS: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}


class Quantifier(NamedTuple):
    """The minimum and maximum number of repetitions, and the count that is tried first."""

    minimum: int
    maximum: int | None
    kind: Literal["greedy", "lazy", "possessive"]
    after: int


def read_quantifier(pattern: str, position: int) -> Quantifier | None:
    """Read a quantifier.

    Args:
        pattern: The whole pattern.
        position: Index of `*`, `+`, `?` or `{`.

    Returns:
        The quantifier with the index after it, or None if the brace is literal, as in `a{`, `a{}` and `a{x}`.

    Raises:
        PatternSyntaxError: The minimum is greater than the maximum, or a count is too large.

    Example:
        >>> read_quantifier("a{,3}?", 1)
        Quantifier(minimum=0, maximum=3, kind='lazy', after=6)
    """
    sign = pattern[position]
    if sign == "{":
        found = _BRACES.match(pattern, position)
        if found is None:
            return None
        exact, least, most = found.groups()
        minimum = _count(exact or least or "0", pattern, position)
        maximum = _count(exact or most, pattern, position) if exact or most else None
        if maximum is not None and maximum < minimum:
            reason = f"min repeat {minimum} greater than max repeat {maximum}"
            raise PatternSyntaxError(reason, pattern, position)
        after = found.end()
    else:
        minimum, maximum = SIGNS[sign]
        after = position + 1
    match pattern[after : after + 1]:
        case "?":
            return Quantifier(minimum, maximum, "lazy", after + 1)
        case "+":
            return Quantifier(minimum, maximum, "possessive", after + 1)
        case _:
            return Quantifier(minimum, maximum, "greedy", after)


def _count(digits: str, pattern: str, position: int) -> int:
    significant = digits.lstrip("0") or "0"
    if len(significant) > len(str(COUNT_LIMIT)) or int(significant) >= COUNT_LIMIT:
        reason = f"the repetition number is too large; the largest is {COUNT_LIMIT - 1}"
        raise PatternSyntaxError(reason, pattern, position)
    return int(significant)


GroupKind = Literal["plain", "atomic", "look", "comment", "global_flags"]

_NOT_REGULAR = "is not supported, because its language is not regular"
# Inside comments too, a backslash hides the character after it.
_COMMENT = re.compile(r"(?:[^\\)]|\\.)*\)", re.DOTALL)
_TYPE_LETTERS = frozenset("au")
_REDEFINED = "flag turned on and off"


@dataclass(frozen=True, slots=True)
class Opening:
    """The opening of a group.

    Args:
        kind: The kind of group; comments and global flags are complete, other groups extend to their closing parenthesis.
        after: Index of the first character after the opening.
        flags: The flags inside.
        name: Name of the group.
        captures: Whether the group has a number.
        behind: Whether it is a lookbehind.
        negative: Whether it is a negative lookahead or lookbehind.
    """

    kind: GroupKind
    after: int
    flags: int
    name: str | None = None
    captures: bool = False
    behind: bool = False
    negative: bool = False


def read_opening(pattern: str, position: int, flags: int) -> Opening:
    """Read the opening of a group, or a complete comment or `(?flags)`.

    Args:
        pattern: The whole pattern.
        position: Index of the parenthesis.
        flags: The flags before it.

    Raises:
        PatternSyntaxError: The opening is unknown or malformed, or the language of its group is not regular.

    Example:
        >>> read_opening("(?P<year>[0-9]+)", 0, 0).name
        'year'
    """
    if not pattern.startswith("?", position + 1):
        return Opening("plain", position + 1, flags, captures=True)
    letter = pattern[position + 2 : position + 3]
    after = position + 3
    match letter:
        case "":
            raise PatternSyntaxError(r"unexpected end of pattern; for a literal ( write \(", pattern, position)
        case ":" | ">":
            return Opening("plain" if letter == ":" else "atomic", after, flags)
        case "=" | "!":
            return Opening("look", after, flags, negative=letter == "!")
        case "<" if pattern[after : after + 1] in ("=", "!"):
            return Opening("look", after + 1, flags, behind=True, negative=pattern[after] == "!")
        case "#":
            return Opening("comment", _comment_end(pattern, position), flags)
        case "<":
            # As in ECMA-262 and in Rust's `regex`; `re` writes (?P<name>...) only.
            return _named(pattern, after, flags)
        case "P":
            return _python_extension(pattern, position, flags)
    if letter == "-" or letter in LETTERS or letter == "L":
        return _flags(pattern, position, flags)
    raise PatternSyntaxError(_unknown(pattern, position), pattern, position)


def _comment_end(pattern: str, position: int) -> int:
    found = _COMMENT.match(pattern, position + 3)
    if found is None:
        raise PatternSyntaxError("missing ), unterminated comment", pattern, position)
    return found.end()


def _python_extension(pattern: str, position: int, flags: int) -> Opening:
    sign = pattern[position + 3 : position + 4]
    if sign == "<":
        return _named(pattern, position + 4, flags)
    if sign == "=":
        name = _name(pattern, position + 4, ")")
        reason = f"backreference (?P={name}) {_NOT_REGULAR}; write out the texts that it may repeat"
        raise PatternSyntaxError(reason, pattern, position)
    if not sign:
        raise PatternSyntaxError(r"unexpected end of pattern; for a literal ( write \(", pattern, position)
    raise PatternSyntaxError(_unknown(pattern, position), pattern, position)


def _named(pattern: str, begin: int, flags: int) -> Opening:
    name = _name(pattern, begin, ">")
    return Opening("plain", begin + len(name) + 1, flags, name=name, captures=True)


def _name(pattern: str, begin: int, terminator: str) -> str:
    end = pattern.find(terminator, begin)
    if end < 0:
        raise PatternSyntaxError(f"missing {terminator}, unterminated group name", pattern, begin)
    name = pattern[begin:end]
    if not name:
        raise PatternSyntaxError("missing group name", pattern, begin)
    if not name.isidentifier():
        raise PatternSyntaxError(f"bad character in group name {name!r}: it must be an identifier", pattern, begin)
    return name


def _flags(pattern: str, position: int, flags: int) -> Opening:
    on, at = _letters(pattern, position + 2)
    off = ""
    if pattern.startswith("-", at):
        off, at = _letters(pattern, at + 1)
        if not off:
            raise PatternSyntaxError("missing flag after -", pattern, at)
        if kept := [letter for letter in off if letter in _TYPE_LETTERS]:
            reason = "bad inline flags: cannot turn off the flags a and u; turn on the other one"
            raise PatternSyntaxError(reason, pattern, at - len(off) + off.index(kept[0]))
    if "a" in on and "u" in on:
        raise PatternSyntaxError("bad inline flags: the flags a and u exclude each other", pattern, position + 2)
    if both := set(on) & set(off):
        reason = f"bad inline flags: flag {min(both)} turned on and off"
        raise PatternSyntaxError(reason, pattern, position + 2)
    closing = pattern[at : at + 1]
    if closing != ":" and (off or closing != ")"):
        wanted = "missing :" if off else "missing -, : or )"
        if closing.isalpha():
            wanted = f"unknown flag {closing}; known are {', '.join(LETTERS)}"
        raise PatternSyntaxError(wanted, pattern, at)
    for letter in on:
        flags = flags & ~ASCII if letter == "u" else flags | LETTERS[letter]
    for letter in off:
        flags &= ~LETTERS[letter]
    return Opening("plain" if closing == ":" else "global_flags", at + 1, flags)


def _letters(pattern: str, begin: int) -> tuple[str, int]:
    at = begin
    while pattern[at : at + 1] in LETTERS:
        at += 1
    if pattern.startswith("L", at):
        raise PatternSyntaxError("bad inline flags: the flag L is for bytes patterns; leave it out", pattern, at)
    return pattern[begin:at], at


def _unknown(pattern: str, position: int) -> str:
    rest = pattern[position + 2 : position + 4]
    if rest[:1] == "(":
        return f"conditional group (?(...)...) {_NOT_REGULAR}; write both alternatives out"
    if rest[:1] == "P" and rest[1:] == ">":
        return f"recursion (?P>...) {_NOT_REGULAR}"
    if rest[:1] == "P":
        return f"unknown extension ?{rest}"
    if rest[:1] in "R&0123456789+":
        return f"unknown extension ?{rest[:1]}: recursion {_NOT_REGULAR}"
    if rest[:1] == "'":
        return f"unknown extension ?{rest}; write (?P<name>...) for a named group"
    if rest[:1] == "|":
        return "unknown extension ?|; write (?:...)"
    if rest[:1] == "^":
        return "unknown extension ?^; turn flags off by name, such as (?-i:...)"
    return f"unknown extension ?{rest[:1]}; for a literal ( write \\("
