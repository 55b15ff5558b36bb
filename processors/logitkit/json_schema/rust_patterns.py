r"""Patterns in the syntax of Rust's `regex`, with which pydantic matches, as ECMA-262 patterns.

ECMA's `\d` and `\w` are ASCII, so they describe a subset; what excludes them, such as `\D` and `[^\w]`, must exclude more. So
must a class that excludes letters in any case, because another version of Unicode has more pairs of letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic.errors import PydanticUserError

from logitkit.json_schema.character_classes import certain_variants, possible_variants, ranges, written
from logitkit.patterns.charset import CharSet

__all__ = ["rust_as_ecma"]

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
    "D": f"[^{_DIGITS}]",
    "S": f"[^{_SPACE}]",
    "W": f"[^{_WORD}]",
    "s": f"[{_BLANK}]",
    "b": _EDGE,
    "B": _NO_EDGE,
    "A": "^",
    "z": "$",
}
# A class cannot have a negated one inside, so these name what is left.
_INSIDE = {
    "D": r"\x00-\/:-\x7f\p{L}\p{M}\p{P}\p{S}\p{Z}",
    "S": r"\x00-\x08\x0e-\x1b!-\x7f\p{L}\p{M}\p{N}\p{P}\p{S}",
    "W": r"\x00-\/:-@\[-\^\x60\{-\x7f\p{Ps}\p{Pe}\p{Po}\p{Sc}\p{Z}",
    "s": _BLANK,
}
_NEGATED = {"d": _DIGITS, "s": _SPACE, "S": r"\S\ufeff", "w": _WORD}

# A character that is not assigned in this version of Unicode may be another case of a letter in the next one.
_UNKNOWN = r"\p{Cn}"

_CONTROLS = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_HEX = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|[xuU]\{([0-9a-fA-F]+)\}")
_PROPERTY = re.compile(r"([pP])(?:\{([^}]*)\}|([A-Za-z]))")
_FLAGS = re.compile(r"\?([imsUuxR]*(?:-[imsUuxR]+)?)([:)])")
_BOUNDARY = re.compile(r"\\(?:[<>]|b\{\s*[A-Za-z-]+\s*\})")
_NAMED = re.compile(r"\?P?<([^>]*)>")
# The white space and the comments of verbose mode; `\s` of Python has four more characters.
_IGNORED = re.compile(r"(?:(?![\x1c-\x1f])\s|#[^\n]*)*")
_NUMBER = re.compile(r"\s*([0-9]*)\s*")
# Rust's operations on classes, which stand for themselves in ECMA-262.
_OPERATIONS = ("[", "&&", "--", "~~")


@dataclass(frozen=True)
class _Class:
    """A class such as `d`, or a property as it is written, which are not sets of known characters."""

    written: str


def rust_as_ecma(pattern: str) -> str:
    r"""Return an ECMA-262 pattern; the texts that it matches are texts that a pattern of Rust matches.

    Raises:
        PydanticUserError: It has syntax of Rust that ECMA-262 does not have.

    Example:
        >>> print(rust_as_ecma(r"^(?P<year>\d+)\D[^\s]$"))
        ^(?<year>\d+)[^\p{Nd}\p{Cn}][^\s\x1c-\x1f\x85]$
        >>> print(rust_as_ecma("(?i)^no"))
        ^[Nn][Oo]
    """
    return _RustReader(pattern).run()


class _RustReader:
    """Reads a pattern that Rust accepts, and translates it.

    Attributes:
        at: The place in the pattern.
        flags: Those that are set there.
        pieces: The pieces written so far.
        open: For each open group, the flags outside of it, and its first piece.
        repeatable: The first piece of what a quantifier repeats.
        needs_group: Whether that needs a group around it, because ECMA-262 repeats no anchor and nothing twice.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags = frozenset[str]()
        self.pieces: list[str] = []
        self.open: list[tuple[frozenset[str], int]] = []
        self.repeatable = 0
        self.needs_group = False

    def run(self) -> str:
        """Return the pattern in the other syntax."""
        self.skip(0)
        while self.at < len(self.pattern):
            match self.pattern[self.at]:
                case "*" | "+" | "?" | "{":
                    self.quantifier()
                case ")":
                    self.closing()
                case _:
                    piece = self.piece()
                    self.repeatable, self.needs_group = len(self.pieces), piece in ("^", "$")
                    self.pieces.append(piece)
            self.skip(0)
        return "".join(self.pieces)

    def refused(self, what: str, instead: str = "") -> PydanticUserError:
        """Return the error for syntax that cannot be written otherwise."""
        return PydanticUserError(f"the pattern {self.pattern!r} has {what}{instead}", code=None)

    def skip(self, characters: int) -> None:
        """Go on by some characters and, in verbose mode, over the white space and the comments after them."""
        self.at = self.after(self.at + characters)

    def after(self, at: int) -> int:
        """Return the next place from one on where white space and comments of verbose mode end."""
        found = _IGNORED.match(self.pattern, at) if "x" in self.flags else None
        return at if found is None else found.end()

    def piece(self) -> str:
        """Read one piece, and return what is written for it."""
        letter = self.pattern[self.at]
        if letter == "\\":
            return self.escape()
        if letter == "[":
            return self.bracketed()
        if letter == "(":
            return self.opening()
        self.at += 1
        match letter:
            case ".":
                return "[^]" if "s" in self.flags else r"[^\n]"
            case "^":
                return r"(?:^|(?<=\n))" if "m" in self.flags else letter
            case "$":
                return r"(?:$|(?=\n))" if "m" in self.flags else letter
            case "|":
                return letter
        return self.literal(ord(letter))

    def quantifier(self) -> None:
        """Read a quantifier. Whether it is lazy changes no language."""
        sign = self.pattern[self.at]
        if sign == "{":
            self.skip(1)
            least = self.number() or "0"
            if self.pattern.startswith(",", self.at):
                self.skip(1)
                least += f",{self.number()}"
            if not self.pattern.startswith("}", self.at):
                raise self.refused("white space inside of a number", "; leave it out")
            # White space may stand before the question mark here, and not after the other signs.
            self.skip(1)
            sign = f"{{{least}}}"
        else:
            self.at += 1
        if self.pattern.startswith("?", self.at):
            self.at += 1
        if self.needs_group:
            self.pieces[self.repeatable] = "(?:" + self.pieces[self.repeatable]
            sign = ")" + sign
        self.pieces.append(sign)
        self.needs_group = True

    def number(self) -> str:
        """Read a number in a quantifier, with white space around it; it may be left out."""
        found = _NUMBER.match(self.pattern, self.at)
        assert found is not None
        self.at = found.end()
        self.skip(0)
        return found[1]

    def opening(self) -> str:
        """Read the beginning of a group, or flags."""
        self.skip(1)
        if found := _FLAGS.match(self.pattern, self.at):
            self.at = found.end()
            on, _, off = found[1].partition("-")
            if "R" in on or "u" in off:
                raise self.refused(f"({found[0]}", ", a flag that changes how bytes or line ends are read")
            # U and u change no language.
            flags = (self.flags | {*on}) - {*off}
            if found[2] == ":":
                self.open.append((self.flags, len(self.pieces)))
            self.flags = flags
            return "(?:" if found[2] == ":" else ""
        self.open.append((self.flags, len(self.pieces)))
        if found := _NAMED.match(self.pattern, self.at):
            self.at = found.end()
            return f"(?<{found[1]}>" if re.fullmatch(r"[A-Za-z_]\w*", found[1], re.ASCII) else "(?:"
        return "("

    def closing(self) -> None:
        """Read the end of a group."""
        self.at += 1
        self.flags, self.repeatable = self.open.pop()
        self.needs_group = False
        self.pieces.append(")")

    def escape(self) -> str:
        """Read an escape outside of a class."""
        letter = self.pattern[self.at + 1]
        if found := _BOUNDARY.match(self.pattern, self.at):
            raise self.refused(f"{found[0]!r}, a word boundary")
        if letter in _OUTSIDE:
            self.at += 2
            return _OUTSIDE[letter]
        member = self.member()
        return self.literal(member) if isinstance(member, int) else member.written

    def literal(self, code_point: int) -> str:
        """Return what is written for a character."""
        if "i" not in self.flags:
            return written(code_point)
        variants = certain_variants(CharSet.single(code_point))
        return written(code_point) if len(variants) == 1 else f"[{ranges(variants)}]"

    def bracketed(self) -> str:
        """Read a class."""
        self.skip(1)
        negated = self.pattern.startswith("^", self.at)
        self.skip(negated)
        found: list[tuple[int, int]] = []
        classes: list[str] = []
        # Hyphens at the beginning, and a bracket after them, stand for themselves.
        while self.pattern.startswith("-", self.at):
            found.append((ord("-"),) * 2)
            self.skip(1)
        if not found and self.pattern.startswith("]", self.at):
            found.append((ord("]"),) * 2)
            self.skip(1)
        while not self.pattern.startswith("]", self.at):
            for operation in _OPERATIONS:
                if self.pattern.startswith(operation, self.at):
                    instead = " in a class of characters; write it with a backslash, or another class"
                    raise self.refused(repr(operation), instead)
            member = self.member()
            if isinstance(member, int):
                found.append((member, self.range_end(member)))
            elif "i" in self.flags and negated and member.written.startswith(r"\p"):
                raise self.refused(f"[^{member.written}] in any case")
            else:
                classes.append((_NEGATED if negated else _INSIDE).get(member.written[1:], member.written))
            self.skip(0)
        self.at += 1
        charset = CharSet.of(found)
        if "i" in self.flags:
            charset = possible_variants(charset) if negated else certain_variants(charset)
            classes += [_UNKNOWN] if negated else []
        return f"[{'^' if negated else ''}{ranges(charset)}{''.join(classes)}]"

    def range_end(self, first: int) -> int:
        """Read the end of a range, if there is one."""
        self.skip(0)
        after = self.after(self.at + 1)
        if not self.pattern.startswith("-", self.at) or self.pattern.startswith(("]", "-"), after):
            return first
        self.at = after
        last = self.member()
        assert isinstance(last, int), "Rust refuses a range to a class"
        return last

    def member(self) -> int | _Class:
        """Read a character, or a class in an escape."""
        if self.pattern[self.at] != "\\":
            self.at += 1
            return ord(self.pattern[self.at - 1])
        letter, begin = self.pattern[self.at + 1], self.at + 1
        self.at += 2
        if letter in "dDsSwW":
            return _Class("\\" + letter)
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if found := _HEX.match(self.pattern, begin):
            self.at = found.end()
            return int(next(filter(None, found.groups())), 16)
        if found := _PROPERTY.match(self.pattern, begin):
            self.at = found.end()
            if found[1] == "P" and "i" in self.flags:
                raise self.refused(rf"\{found[0]} in any case")
            return _Class(f"\\{found[1]}{{{found[2] or found[3]}}}")
        if letter.isalpha():
            raise self.refused(rf"white space inside of the escape \{letter}", "; leave it out")
        return ord(letter)
