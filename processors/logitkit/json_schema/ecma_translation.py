r"""ECMA-262 patterns, translated to the dialect of our own parser.

With the flag `u`: `\d`, `\w` and `\b` are about ASCII, `\s` and `.` have ECMA's sets, `$` is the true end, a pair of `\u` escapes
is one character. Of what only the web's older grammar allows, all that has one meaning everywhere is taken literally: `\-`, `\"`,
a brace that counts nothing, a hyphen beside a class.
"""

from __future__ import annotations

import re

import numpy as np

from logitkit.compiler.characters.code_units import of_units
from logitkit.errors import PatternSyntaxError
from logitkit.patterns.charset import MAX_CODE_POINT, SURROGATES, CharSet

DIGITS = CharSet.of([(0x30, 0x39)])
WORD = CharSet.of([(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)])
SPACE = CharSet.from_string("\t\n\v\f\r \xa0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff") | CharSet(((0x2000, 0x200A),))
CLASSES = {"d": DIGITS, "w": WORD, "s": SPACE} | {"D": ~DIGITS, "W": ~WORD, "S": ~SPACE}
LINE_ENDS = CharSet.from_string("\n\r\u2028\u2029")
# The letters of escapes that are one character. `b` is one in a class only, and elsewhere no member is read.
SHORT = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "b": 8, "0": 0}

_COUNT = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_OPENING = re.compile(r"\((?:\?(?::|=|!|<=|<!|<[A-Za-z_$][\w$]*>))?")
_PROPERTY = re.compile(r"[pP]\{[A-Za-z0-9_]+(?:=[A-Za-z0-9_]+)?\}")
_PAIR = re.compile(r"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_NUMBER = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")
_BRACED = re.compile(r"u\{([0-9a-fA-F]+)\}")


class HalfAlone(Exception):
    """With the flag `u`, a part of a pattern could match nothing but half of a surrogate pair."""


def joined(pattern: str) -> str:
    """Return a text in which two halves in a row are one character, as in JavaScript."""
    return pattern.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


class Translation:
    """Translates the pattern piece by piece, as it is read with the flag `u`."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.pieces: list[str] = []
        self.begins: list[int] = []
        self.sources: list[int] = []

    def run(self) -> str:
        """Return the pattern in the other dialect."""
        length = 0
        while self.at < len(self.pattern):
            begin = self.at
            piece = self.piece()
            self.begins.append(length)
            self.sources.append(begin)
            self.pieces.append(piece)
            length += len(piece)
        return "".join(self.pieces)

    def refused(self, reason: str, position: int | None = None) -> PatternSyntaxError:
        """Return the error at a position of the pattern, or where it is being read."""
        return PatternSyntaxError(reason, self.pattern, self.at if position is None else position)

    def piece(self) -> str:
        """Read one piece, and return what is written for it."""
        letter = self.pattern[self.at]
        if letter == "\\":
            return self.escape()
        if letter == "[":
            return self.bracketed()
        if letter == "(":
            return self.opening()
        if letter in "*+?{":
            return self.quantifier()
        self.at += 1
        match letter:
            case ".":
                return self.written(~LINE_ENDS)
            case "$":
                return r"\Z"
            case "}" | "]":
                return "\\" + letter
            case _ if "\ud800" <= letter <= "\udfff":
                return self.matching(CharSet.single(ord(letter)))
            case _:
                return letter

    def opening(self) -> str:
        """Read the opening of a group."""
        found = _OPENING.match(self.pattern, self.at)
        assert found is not None
        if found[0] == "(" and self.pattern.startswith("?", self.at + 1):
            what = self.pattern[self.at : self.at + 3]
            raise self.refused(f"{what} opens no group of ECMA-262; it has (?:, (?=, (?!, (?<=, (?<! and (?<name>")
        self.at = found.end()
        return found[0] if found[0][-1] in ":=!" else "(?:"

    def quantifier(self) -> str:
        """Read a quantifier, or a brace that counts nothing."""
        begin = self.at
        found = _COUNT.match(self.pattern, begin)
        if self.pattern[begin] == "{" and found is None:
            if self.pattern.startswith(",", begin + 1):
                raise self.refused(r"{, counts nothing in ECMA-262; write {0,...}, or \{ for a literal brace")
            self.at += 1
            return r"\{"
        self.at = begin + 1 if found is None else found.end()
        if self.pattern.startswith("?", self.at):
            self.at += 1
        if self.pattern[self.at : self.at + 1] in ("*", "+", "?") or _COUNT.match(self.pattern, self.at):
            raise self.refused("nothing to repeat: ECMA-262 has no quantifier of a quantifier, and no possessive ones")
        return self.pattern[begin : self.at]

    def escape(self) -> str:
        """Read an escape outside of brackets."""
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter == "b":
            self.at += 2
            return r"(?a:\b)"
        if letter == "B":
            self.at += 2
            # Not `\B`, which means something else in the empty text.
            word = self.written(WORD)
            return f"(?:(?<={word})(?={word})|(?<!{word})(?!{word}))"
        if letter in "123456789k" and letter:
            raise self.refused("a backreference is not supported, because its language is not regular")
        member = self.member()
        return member if isinstance(member, str) else self.matching(member)

    def bracketed(self) -> str:
        """Read a class."""
        begin = self.at
        negative = self.pattern.startswith("^", begin + 1)
        self.at += 2 if negative else 1
        charset = CharSet()
        properties: list[str] = []
        while not self.pattern.startswith("]", self.at):
            if self.at >= len(self.pattern):
                raise self.refused(r"unterminated character set; for a literal [ write \[", begin)
            first_at = self.at
            members = [self.member()]
            if self.pattern.startswith("-", self.at) and not self.pattern.startswith("-]", self.at):
                self.at += 1
                if self.at >= len(self.pattern):
                    raise self.refused(r"unterminated character set; for a literal [ write \[", begin)
                members.append(self.member())
                members = self.range_of(members, first_at)
            for member in members:
                if isinstance(member, str):
                    properties.append(member)
                else:
                    charset |= member
                    if not negative:
                        self.check_halves(member)
        self.at += 1
        if not properties:
            return self.written(~charset if negative else charset)
        return f"[{'^' if negative else ''}{_ranges(charset)}{''.join(properties)}]"

    def range_of(self, ends: list[str | CharSet], begin: int) -> list[str | CharSet]:
        """Return the members that two ends with a hyphen between them are."""
        low, high = ends
        if isinstance(low, str) or isinstance(high, str) or len(low) != 1 or len(high) != 1:
            # Beside a class the hyphen stands for itself.
            return [low, CharSet.from_string("-"), high]
        first, last = next(iter(low)), next(iter(high))
        if last < first:
            self.check_halves(low)
            self.check_halves(high)
            written = self.pattern[begin : self.at]
            raise self.refused(f"bad character range {written}: its end comes before its start", begin)
        return [CharSet(((first, last),))]

    def member(self) -> str | CharSet:
        """Read one member of a class, or an escape outside: a set, or a property as it stands."""
        begin = self.at
        if self.pattern[begin] != "\\":
            self.at += 1
            return CharSet.single(ord(self.pattern[begin]))
        letter = self.pattern[begin + 1 : begin + 2]
        after = begin + 2
        if not letter:
            raise self.refused(r"bad escape (end of pattern); write \\ for a backslash")
        found: str | CharSet
        if letter in CLASSES:
            found = CLASSES[letter]
        elif letter in SHORT and not (letter == "0" and self.pattern[after : after + 1].isdigit()):
            found = CharSet.single(SHORT[letter])
        elif pair := self.pair(begin):
            found, after = pair
        elif letter == "c" and re.match("[A-Za-z]", self.pattern[after : after + 1]):
            found = CharSet.single(ord(self.pattern[after]) % 32)
            after += 1
        elif number := _NUMBER.match(self.pattern, begin + 1):
            value = int(number[1] or number[2], 16)
            found, after = CharSet.single(value), number.end()
        elif of_unicode := self.only_with_the_flag(begin):
            found, after = of_unicode
        elif letter.isalnum():
            raise self.refused(f"bad escape {self.pattern[begin:after]}; ECMA-262 gives it no meaning")
        else:
            found = CharSet.single(ord(letter))
        self.at = after
        return found

    def only_with_the_flag(self, begin: int) -> tuple[str | CharSet, int] | None:
        """Read an escape that has its meaning with the flag `u` only; return that and the position after it."""
        if braced := _BRACED.match(self.pattern, begin + 1):
            value = int(braced[1], 16)
            if value > MAX_CODE_POINT:
                raise self.refused(f"bad escape {self.pattern[begin : braced.end()]}: the last code point is 10FFFF")
            return CharSet.single(value), braced.end()
        if name := _PROPERTY.match(self.pattern, begin + 1):
            return self.pattern[begin : name.end()], name.end()
        return None

    def pair(self, begin: int) -> tuple[CharSet, int] | None:
        r"""Read a surrogate pair in `\u` escapes, which is one character."""
        if found := _PAIR.match(self.pattern, begin):
            high, low = (int(half, 16) for half in found.groups())
            return CharSet.single(0x10000 + (high - 0xD800) * 0x400 + low - 0xDC00), found.end()
        return None

    def check_halves(self, charset: CharSet) -> None:
        """Raise `HalfAlone` if a set has only halves of surrogate pairs."""
        if charset and not charset - SURROGATES:
            raise HalfAlone

    def matching(self, charset: CharSet) -> str:
        """Return the text of a set that has to match."""
        self.check_halves(charset)
        return self.written(charset)

    def written(self, charset: CharSet) -> str:
        """Return the text of a set."""
        # An empty class cannot be written with brackets.
        return f"[{_ranges(charset)}]" if charset else "(?!)"


class UnitTranslation(Translation):
    """The same for a pattern that is read without the flag `u`: over UTF-16 code units."""

    def __init__(self, pattern: str) -> None:
        units = np.frombuffer(pattern.encode("utf-16-le", "surrogatepass"), "<u2")
        super().__init__("".join(map(chr, units.tolist())))

    def refused(self, reason: str, position: int | None = None) -> PatternSyntaxError:
        """Return the error, with the pattern and the position in characters."""
        position = self.at if position is None else position
        return PatternSyntaxError(reason, joined(self.pattern), len(joined(self.pattern[:position])))

    def only_with_the_flag(self, begin: int) -> None:
        """Refuse an escape whose meaning depends on the flag."""
        if found := _BRACED.match(self.pattern, begin + 1) or _PROPERTY.match(self.pattern, begin + 1):
            raise self.refused(
                f"{self.pattern[begin : found.end()]} has its meaning with the flag u only, and with it, half of a surrogate "
                r"pair, as elsewhere in the pattern, matches nothing; write whole characters, such as \u{1f300}"
            )

    def pair(self, begin: int) -> None:
        """Leave a pair to be read as two halves."""

    def check_halves(self, charset: CharSet) -> None:
        """Take halves, which are units like others."""

    def written(self, charset: CharSet) -> str:
        """Return the text of a set of units."""
        return super().written(of_units(charset))


def _ranges(charset: CharSet) -> str:
    return "".join(rf"\U{first:08x}-\U{last:08x}" for first, last in charset.ranges)
