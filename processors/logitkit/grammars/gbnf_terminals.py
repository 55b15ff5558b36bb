"""The terminals and quantifiers of GBNF: strings, classes, special tokens, and `{m,n}`."""

from __future__ import annotations

import re
from typing import NoReturn

from logitkit.errors import GrammarError
from logitkit.limits import DEFAULT_LIMITS, Limits
from logitkit.patterns.charset import ANY, MAX_CODE_POINT, CharSet
from logitkit.patterns.classes import character
from logitkit.patterns.construction import concatenate
from logitkit.patterns.groups import COUNT_LIMIT, SIGNS
from logitkit.patterns.syntax import Characters, Node

__all__ = [
    "ANY_CHARACTER",
    "NAME",
    "SPACE",
    "SPACE_OR_NEWLINE",
    "GbnfText",
    "read_class",
    "read_counts",
    "read_string",
    "read_text",
    "read_token",
]

SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
SPACE_OR_NEWLINE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
NAME = re.compile(r"[A-Za-z0-9_-]+")
_INSTEAD = {
    "'": 'a string is written "..."',
    ",": "parts follow each other without commas",
    ";": "a rule ends at the end of its line, without a semicolon",
    "/": "regular expressions are not supported; a comment begins with #",
    "=": "a rule is written name ::= ...",
    ":": "a rule is written name ::= ...",
    ".": "names consist of letters, digits, - and _",
}


class GbnfText:
    """Reads a grammar from left to right.

    Args:
        text: The grammar.

    Attributes:
        at: The index of what comes next.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def skip(self, space: re.Pattern[str]) -> None:
        """Go on after some space."""
        found = space.match(self.text, self.at)
        assert found is not None
        self.at = found.end()

    def unexpected(self, allowed: str) -> NoReturn:
        """Raise for what comes next, where something else is allowed."""
        found = self.text[self.at : self.at + 1]
        if found == "<" or (found == ":" and self.text[: self.at].rstrip().endswith(">")):
            raise GrammarError("the name of a rule is written without < >", self.text, self.at)
        if found == ")":
            raise GrammarError(') closes no group; for a literal ) write ")"', self.text, self.at)
        reason = f"found {found!r}; allowed is {allowed}" if found else f"the grammar ends, and {allowed} is missing"
        advice = f" ({_INSTEAD[found]})" if found in _INSTEAD else ""
        raise GrammarError(f"{reason}{advice}", self.text, self.at)


# XGrammar prints a count without a maximum as {m, -1}.
_BRACES = re.compile(r"\{\s*([0-9]+)\s*(?:(,)\s*(?:-1|([0-9]*))\s*)?\}")


def read_counts(grammar: str, position: int) -> tuple[int, int | None, int]:
    """Read a quantifier.

    Args:
        grammar: The whole grammar.
        position: Index of `*`, `+`, `?` or `{`.

    Returns:
        The smallest and the largest number of copies (None = no limit), and the index after the quantifier.

    Raises:
        GrammarError: The braces do not contain counts in order, or a count is too large.

    Example:
        >>> read_counts("x{2, }", 1)
        (2, None, 6)
    """
    if grammar[position] in SIGNS:
        return *SIGNS[grammar[position]], position + 1
    found = _BRACES.match(grammar, position)
    if found is None:
        raise GrammarError("a repetition is written {m}, {m,} or {m,n}", grammar, position)
    least, most = (int(digits) if len(digits) < 20 else COUNT_LIMIT for digits in (found[1], found[3] or "0"))
    if max(least, most) >= COUNT_LIMIT:
        raise GrammarError(f"the count is too large; the largest is {COUNT_LIMIT - 1}", grammar, position)
    if found[3] and most < least:
        raise GrammarError(
            f"the counts {found[0]} are in reverse order; write the smaller one first", grammar, position
        )
    if not found[2]:
        return least, least, found.end()
    return least, most if found[3] else None, found.end()


SURROGATES = CharSet(((0xD800, 0xDFFF),))
ANY_CHARACTER = Characters(ANY - SURROGATES)

_PLAIN = re.compile(r'[^"\\]+')
_ESCAPES = {
    **dict(zip("nrtabfve0", (10, 13, 9, 7, 8, 12, 11, 27, 0), strict=True)),
    **{letter: ord(letter) for letter in "\\\"[]{}-'?^/"},
}
_DIGITS = {"x": 2, "u": 4, "U": 8}
_HEX = re.compile(r"[0-9a-fA-F]*")
# The form in a class instead; the upper-case letters stand for everything else.
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": r" \t\r\n"}
_TOKEN = re.compile(r"<(?:\[([0-9]{1,18})\]|(?!\[)[^>\r\n]+)>")


def read_string(grammar: str, position: int, limits: Limits = DEFAULT_LIMITS) -> tuple[Node, int]:
    """Read a string from its opening quotation mark.

    Returns:
        Its characters, and the index after the closing quotation mark.

    Raises:
        GrammarError: The string is not closed, or has an escape that does not exist.
        PatternTooLarge: It has more characters than the limit of states.

    Example:
        >>> read_string('"ab" c', 0)[1]
        4
    """
    text, after = read_text(grammar, position, limits)
    return concatenate([character(ord(letter), 0) for letter in text]), after


def read_text(grammar: str, position: int, limits: Limits = DEFAULT_LIMITS) -> tuple[str, int]:
    """Read a string as `read_string` does, and return its text and the index after it."""
    parts: list[str] = []
    at, length = position + 1, 0
    while grammar[at : at + 1] != '"':
        if found := _PLAIN.match(grammar, at):
            part, at = found[0], found.end()
        elif at >= len(grammar):
            raise GrammarError('a string is not closed; write " at its end, and \\" inside of it', grammar, position)
        else:
            begin = at
            code_point, at = _escape(grammar, at)
            if code_point in SURROGATES:
                reason = "half of a surrogate pair is not a character; write the whole one, such as \\U0001F600"
                raise GrammarError(reason, grammar, begin)
            part = chr(code_point)
        parts.append(part)
        length += len(part)
        limits.check_states(length)
    return "".join(parts), at + 1


def read_class(grammar: str, position: int) -> tuple[Node, int]:
    """Read a class such as `[a-z]` or `[^"]`, from its bracket; it returns and raises like `read_string`."""
    negated = grammar.startswith("^", position + 1)
    at = position + 1 + negated
    ranges: list[tuple[int, int]] = []
    while not grammar.startswith("]", at):
        begin = at
        first, at = _member(grammar, at, position)
        last = first
        if grammar.startswith("-", at) and not grammar.startswith("-]", at):
            last, at = _member(grammar, at + 1, position)
            if last < first:
                reason = f"the range {grammar[begin:at]} is in reverse order; write the smaller character first"
                raise GrammarError(reason, grammar, begin)
        ranges.append((first, last))
    if not ranges:
        empty, excludes_nothing = 'the class [] is empty; write "" for the empty text', "[^] is not a class; write ."
        raise GrammarError(excludes_nothing if negated else empty, grammar, position)
    charset = ~CharSet.of([*ranges, *SURROGATES.ranges]) if negated else CharSet.of(ranges) - SURROGATES
    if not charset:
        raise GrammarError(f"the class {grammar[position : at + 1][:40]} contains no character", grammar, position)
    return Characters(charset), at + 1


def read_token(grammar: str, position: int) -> tuple[str | int, int]:
    """Read a special token such as `<think>` or `<[10]>`.

    Returns:
        Its text, with the angle brackets, or its id; and the index after it.

    Raises:
        GrammarError: It is not closed, or its id is not a number.
    """
    found = _TOKEN.match(grammar, position)
    if found is None:
        raise GrammarError("a special token is written <text> or <[id]>", grammar, position)
    return found[0] if found[1] is None else int(found[1]), found.end()


def _member(grammar: str, at: int, opening: int) -> tuple[int, int]:
    if at >= len(grammar):
        raise GrammarError("a class is not closed; write ] at its end, and \\] inside of it", grammar, opening)
    return _escape(grammar, at) if grammar[at] == "\\" else (ord(grammar[at]), at + 1)


def _escape(grammar: str, at: int) -> tuple[int, int]:
    letter = grammar[at + 1 : at + 2]
    if letter in _ESCAPES:
        return _ESCAPES[letter], at + 2
    if letter in _DIGITS:
        found = _HEX.match(grammar, at + 2, at + 2 + _DIGITS[letter])
        digits = found[0] if found else ""
        if len(digits) < _DIGITS[letter]:
            reason = f"\\{letter} takes {_DIGITS[letter]} hexadecimal digits, and {digits!r} follows"
            raise GrammarError(reason, grammar, at)
        if int(digits, 16) > MAX_CODE_POINT:
            raise GrammarError(f"\\{letter}{digits} is not a character; the last one is \\U0010FFFF", grammar, at)
        return int(digits, 16), at + 2 + len(digits)
    if members := _CLASSES.get(letter.lower()):
        reason = f"GBNF does not know \\{letter}; write the class [{'^' if letter.isupper() else ''}{members}]"
    elif letter:
        reason = f"the escape \\{letter} does not exist"
        reason += r"; allowed are \n \r \t \\ \" \[ \] \{ \} \- \xHH \uHHHH and \UHHHHHHHH"
    else:
        reason = "the grammar ends in an escape"
    raise GrammarError(reason, grammar, at)
