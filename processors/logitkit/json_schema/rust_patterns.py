r"""Patterns in the syntax of Rust's `regex`, with which pydantic matches, as ECMA-262 patterns.

ECMA's `\d` and `\w` are ASCII, so they describe a subset; what excludes them, such as `\D` and `[^\w]`, must exclude more. So
must a class that excludes letters in any case, because another version of Unicode has more pairs of letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic.errors import PydanticUserError

from logitkit.json_schema.simple_folding import certain_variants, possible_variants
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
_PROPERTY = re.compile(r"([pP])(?:\{([^}]*)\}|(.))", re.DOTALL)
_FLAGS = re.compile(r"\(\?([imsUuxR]*(?:-[imsUuxR]+)?)([:)])")
_NAMED = re.compile(r"\(\?P?<([^>]*)>")
_COUNT = re.compile(r"\{\s*([0-9]+)\s*(,?)\s*([0-9]*)\s*\}")
# Rust's operations on classes, which stand for themselves in ECMA-262.
_OPERATIONS = ("[", "&&", "--", "~~")
_SPECIAL = frozenset("\\^$.*+?()[]{}|/-")


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
    """Reads a pattern that Rust accepts, and writes it anew."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.flags = frozenset[str]()
        self.outer: list[frozenset[str]] = []

    def run(self) -> str:
        """Return the pattern in the other syntax."""
        pieces: list[str] = []
        while self.at < len(self.pattern):
            pieces.append(self.piece())
        return "".join(pieces)

    def refused(self, what: str, instead: str = "") -> PydanticUserError:
        """Return the error for syntax that cannot be written otherwise."""
        return PydanticUserError(f"the pattern {self.pattern!r} has {what}{instead}", code=None)

    def piece(self) -> str:
        """Read one piece, and return what is written for it."""
        letter = self.pattern[self.at]
        if self.skip_space():
            return ""
        if letter == "\\":
            return self.escape()
        if letter == "[":
            return self.bracketed()
        if letter == "(":
            return self.opening()
        if letter == "{" and (count := _COUNT.match(self.pattern, self.at)):
            self.at = count.end()
            return f"{{{count[1]}{count[2]}{count[3]}}}"
        self.at += 1
        match letter:
            case ")":
                self.flags = self.outer.pop()
            case "." if "s" in self.flags:
                return "[^]"
            case "^" if "m" in self.flags:
                return r"(?:^|(?<=\n))"
            case "$" if "m" in self.flags:
                return r"(?:$|(?=\n))"
            case "{" | "}" | "]":
                return "\\" + letter
        return letter if letter in _SPECIAL else self.literal(ord(letter))

    def skip_space(self) -> bool:
        """Skip white space, or a comment, in verbose mode."""
        letter = self.pattern[self.at]
        if "x" not in self.flags:
            return False
        if letter == "#":
            self.at = (self.pattern.find("\n", self.at) + 1) or len(self.pattern)
            return True
        if letter.isspace() and letter not in "\x1c\x1d\x1e\x1f":
            self.at += 1
            return True
        return False

    def opening(self) -> str:
        """Read the opening of a group, or flags."""
        if found := _FLAGS.match(self.pattern, self.at):
            self.at = found.end()
            on, _, off = found[1].partition("-")
            if "R" in on or "u" in off:
                raise self.refused(found[0], ", a flag that changes how bytes or line ends are read")
            # U and u change no language.
            flags = (self.flags | {*on}) - {*off}
            if found[2] == ")":
                self.flags = flags
                return ""
            self.outer.append(self.flags)
            self.flags = flags
            return "(?:"
        self.outer.append(self.flags)
        if found := _NAMED.match(self.pattern, self.at):
            self.at = found.end()
            return f"(?<{found[1]}>" if re.fullmatch(r"[A-Za-z_]\w*", found[1], re.ASCII) else "(?:"
        self.at += 1
        return "("

    def escape(self) -> str:
        """Read an escape outside of a class."""
        letter = self.pattern[self.at + 1]
        if self.pattern.startswith((r"\b{", r"\<", r"\>"), self.at):
            end = self.pattern.find("}", self.at) + 1 if letter == "b" else self.at + 2
            raise self.refused(f"{self.pattern[self.at : end]!r}, a word boundary")
        if letter in _OUTSIDE:
            self.at += 2
            return _OUTSIDE[letter]
        member = self.member()
        return self.literal(member) if isinstance(member, int) else member.written

    def literal(self, code_point: int) -> str:
        """Return what is written for a character."""
        if "i" not in self.flags:
            return _character(code_point)
        variants = certain_variants(CharSet.single(code_point))
        return _character(code_point) if len(variants) == 1 else f"[{_ranges(variants)}]"

    def bracketed(self) -> str:
        """Read a class."""
        self.at += 1
        negated = self.pattern.startswith("^", self.at)
        self.at += negated
        ranges: list[tuple[int, int]] = []
        classes: list[str] = []
        # Hyphens at the beginning, and a bracket there, stand for themselves.
        while self.pattern.startswith("-", self.at) or (not ranges and self.pattern.startswith("]", self.at)):
            ranges.append((ord(self.pattern[self.at]),) * 2)
            self.at += 1
        while not self.pattern.startswith("]", self.at):
            if self.skip_space():
                continue
            for operation in _OPERATIONS:
                if self.pattern.startswith(operation, self.at):
                    instead = " in a class of characters; write it with a backslash, or another class"
                    raise self.refused(repr(operation), instead)
            member = self.member()
            if isinstance(member, int):
                ranges.append((member, self.range_end(member)))
            elif "i" in self.flags and negated and member.written.startswith(r"\p"):
                raise self.refused(f"[^{member.written}] in any case")
            else:
                classes.append((_NEGATED if negated else _INSIDE).get(member.written[1:], member.written))
        self.at += 1
        charset = CharSet.of(ranges)
        if "i" in self.flags:
            charset = possible_variants(charset) if negated else certain_variants(charset)
            classes += [_UNKNOWN] if negated else []
        return f"[{'^' if negated else ''}{_ranges(charset)}{''.join(classes)}]"

    def range_end(self, first: int) -> int:
        """Read the end of a range, if there is one."""
        while self.skip_space():
            pass
        if not self.pattern.startswith("-", self.at) or self.pattern.startswith(("-]", "--"), self.at):
            return first
        self.at += 1
        while self.skip_space():
            pass
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
        return ord(letter)


def _character(code_point: int) -> str:
    character = chr(code_point)
    return "\\" + character if character in _SPECIAL else _end(code_point)


def _ranges(charset: CharSet) -> str:
    return "".join(_end(first) if first == last else f"{_end(first)}-{_end(last)}" for first, last in charset.ranges)


def _end(code_point: int) -> str:
    character = chr(code_point)
    if character.isprintable() and character not in _SPECIAL:
        return character
    return rf"\x{code_point:02x}" if code_point < 0x100 else rf"\u{{{code_point:x}}}"
