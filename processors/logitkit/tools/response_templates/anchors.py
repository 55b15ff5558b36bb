r"""The anchors of response templates: literal texts and patterns, as a few ways that they may match, each a row of pieces.

A pattern is a program of a stranger, and Python's `re` may run for ever on it. So it is never given to `re`: what anchors of
models use is read here, and everything else is refused by name. `\s*<tool_call>` is a run of white space and a text, and
`(?:<a>|<b>)x` is two ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from logitkit.errors import ConfigurationError, PatternSyntaxError
from logitkit.patterns.charset import ANY, CharSet
from logitkit.patterns.classes import escaped_class, read_class
from logitkit.patterns.escapes import read_escape
from logitkit.patterns.groups import Quantifier, read_opening, read_quantifier

__all__ = [
    "Ahead",
    "CharacterRun",
    "FieldAnchor",
    "FixedText",
    "Piece",
    "ResponseEnd",
    "ResponseStart",
    "literal_anchor",
    "pattern_anchor",
]

# A longer pattern, and one with more ways to match or more pieces in one of them, is refused.
LONGEST_PATTERN = 2000
MOST_WAYS, MOST_PIECES = 64, 60
DEEPEST = 8


@dataclass(frozen=True)
class FixedText:
    """A text that stands in the anchor as it is."""

    text: str


@dataclass(frozen=True)
class CharacterRun:
    """Some characters of a class.

    Args:
        characters: The class.
        least: The least number of them.
        most: The greatest number; None: there is no bound.
        is_lazy: Whether as few as possible are taken.
        group: The name of the group that they are part of; None: there is none.
    """

    characters: CharSet
    least: int
    most: int | None
    is_lazy: bool = False
    group: str | None = None


@dataclass(frozen=True)
class Ahead:
    """One of several rows of pieces that follow, without being part of the anchor."""

    ways: tuple[tuple[Piece, ...], ...]


@dataclass(frozen=True)
class ResponseStart:
    """The beginning of the response."""


@dataclass(frozen=True)
class ResponseEnd:
    """The end of the response.

    Args:
        or_line: Whether it is also before a line feed there.
    """

    or_line: bool = False


Piece: TypeAlias = "FixedText | CharacterRun | Ahead | ResponseStart | ResponseEnd"
Way: TypeAlias = "tuple[Piece, ...]"


@dataclass(frozen=True)
class FieldAnchor:
    """The text or pattern that opens or closes a field.

    Args:
        ways: The ways in which it may match; the first one that matches counts.
        plain: The way that is written: the shortest one with a text, or the first one of several texts.
        groups: The names of its groups, each with its pattern.
    """

    ways: tuple[Way, ...]
    plain: Way
    groups: tuple[tuple[str, str], ...] = ()


def literal_anchor(texts: Sequence[str]) -> FieldAnchor:
    """Return the anchor of one or more texts: the longest one that matches counts, and the first one is written."""
    ways = tuple((FixedText(text),) for text in sorted(texts, key=len, reverse=True))
    return FieldAnchor(ways, (FixedText(texts[0]),))


@lru_cache(maxsize=256)
def pattern_anchor(pattern: str, place: str) -> FieldAnchor:
    r"""Read a pattern.

    Args:
        pattern: The pattern, in the syntax of Python's `re`.
        place: Where it stands, for errors.

    Raises:
        ConfigurationError: It is not valid, or has something that is not read.

    Example:
        >>> pattern_anchor(r"<f=(?P<name>\w+)>\n?", "open").groups
        (('name', '\\w+'),)
    """
    if len(pattern) > LONGEST_PATTERN:
        raise ConfigurationError(f"{place} is a pattern of {len(pattern)} characters; allowed are {LONGEST_PATTERN}")
    try:
        return _Pattern(pattern, place).anchor()
    except PatternSyntaxError as error:
        raise ConfigurationError(f"{place} is {pattern!r}, which is not a pattern that can be read: {error}") from None


class _Pattern:
    """Reads one pattern."""

    def __init__(self, pattern: str, place: str) -> None:
        self.pattern, self.place = pattern, place
        self.at = 0
        self.groups: list[tuple[str, str]] = []

    def anchor(self) -> FieldAnchor:
        """Return the anchor."""
        ways = self._options(0)
        if self.at < len(self.pattern):
            raise self._refused(self.pattern[self.at], "a bracket that was not opened")
        joined = tuple(map(_joined, ways))
        if any(len(way) > MOST_PIECES for way in joined):
            raise ConfigurationError(f"{self.place} is a pattern of more than {MOST_PIECES} pieces; simplify it")
        lengths = {way: sum(len(piece.text) for piece in way if isinstance(piece, FixedText)) for way in joined}
        return FieldAnchor(joined, min(joined, key=lambda way: (not lengths[way], lengths[way])), tuple(self.groups))

    def _options(self, depth: int) -> list[Way]:
        """Read options with `|` between them."""
        found: list[Way] = []
        while True:
            found += self._row(depth)
            self._check_count(found)
            if not self._skip("|"):
                return found

    def _row(self, depth: int) -> list[Way]:
        ways: list[Way] = [()]
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            # The first choice of the first choice comes first, as in `re`.
            item = self._item(depth)
            self._check_count([()] * (len(ways) * len(item)))
            ways = [(*before, *after) for before in ways for after in item]
        return ways

    def _item(self, depth: int) -> list[Way]:
        start, sign = self.at, self.pattern[self.at]
        if sign == "(":
            return self._group(depth)
        if sign in "^$":
            self.at += 1
            return [(ResponseStart() if sign == "^" else ResponseEnd(or_line=True),)]
        if sign in "*+?":
            raise self._refused(sign, "a sign of repetition that follows nothing")
        charset = self._characters()
        if isinstance(charset, ResponseStart | ResponseEnd):
            return [(charset,)]
        times = self._times()
        if times is None:
            one = [*charset.ranges]
            if len(one) == 1 and one[0][0] == one[0][1]:
                return [(FixedText(chr(one[0][0])),)]
            return [(CharacterRun(charset, 1, 1),)]
        if times.kind == "possessive":
            raise self._refused(self.pattern[start : self.at], "a possessive repetition")
        return [(CharacterRun(charset, times.minimum, times.maximum, times.kind == "lazy"),)]

    def _characters(self) -> CharSet | ResponseStart | ResponseEnd:
        """Read a character, a class or an escape."""
        sign = self.pattern[self.at]
        if sign == ".":
            self.at += 1
            return ANY
        if sign == "[":
            if self.pattern.startswith("[[", self.at) or "[:" in self.pattern[self.at :]:
                raise self._refused("[", r"a class with another bracket inside; write \[ for the character")
            found, self.at = read_class(self.pattern, self.at, 0)
            return found.charset
        if sign != "\\":
            self.at += 1
            return CharSet.single(ord(sign))
        start = self.at
        escape, self.at = read_escape(self.pattern, self.at, in_class=False)
        if isinstance(escape, int):
            return CharSet.single(escape)
        if escape in ("A", "Z"):
            return ResponseStart() if escape == "A" else ResponseEnd()
        if not isinstance(escape, str) or escape in "bB":
            raise self._refused(self.pattern[start : self.at], "an escape that depends on what stands around it")
        return escaped_class(escape, 0).charset

    def _times(self) -> Quantifier | None:
        if self.at >= len(self.pattern) or self.pattern[self.at] not in "*+?{":
            return None
        found = read_quantifier(self.pattern, self.at)
        if found is None:
            raise self._refused("{", r"a brace that does not repeat; write \{ for the character")
        self.at = found.after
        return found

    def _group(self, depth: int) -> list[Way]:
        start = self.at
        opening = read_opening(self.pattern, start, 0)
        shown = self.pattern[start : opening.after]
        if depth == DEEPEST:
            raise self._refused(shown, f"more than {DEEPEST} groups inside of each other")
        if opening.kind not in ("plain", "look") or opening.negative or opening.behind or opening.flags:
            raise self._refused(shown, "a group that is not read; only groups, names and (?=...) are")
        self.at = opening.after
        inside = self._options(depth + 1)
        if not self._skip(")"):
            raise self._refused(shown, "a group that is not closed")
        if opening.name is not None:
            inside = [self._named(opening.name, way) for way in inside]
            self.groups.append((opening.name, self.pattern[opening.after : self.at - 1]))
        if opening.kind == "look":
            inside = [(Ahead(tuple(map(_joined, inside))),)]
        times = self._times()
        if times is None:
            return inside
        if (times.minimum, times.maximum, opening.name) != (0, 1, None) or times.kind == "possessive":
            raise self._refused(self.pattern[start : self.at], "a group that repeats; only an optional group is read")
        return [(), *inside] if times.kind == "lazy" else [*inside, ()]

    def _named(self, name: str, way: Way) -> Way:
        if not way or not all(isinstance(piece, CharacterRun | FixedText) for piece in way):
            raise self._refused(f"(?P<{name}>...)", "a group with a name that does not hold plain characters")
        runs = [
            piece if isinstance(piece, CharacterRun) else CharacterRun(CharSet.single(ord(piece.text)), 1, 1)
            for piece in way
            if isinstance(piece, CharacterRun | FixedText)
        ]
        if any(run.group is not None for run in runs):
            raise self._refused(f"(?P<{name}>...)", "a group with a name inside of another one")
        return tuple(replace(run, group=name) for run in runs)

    def _skip(self, sign: str) -> bool:
        found = self.pattern.startswith(sign, self.at)
        self.at += len(sign) if found else 0
        return found

    def _check_count(self, ways: Sequence[Way]) -> None:
        if len(ways) > MOST_WAYS:
            raise ConfigurationError(
                f"{self.place} is {self.pattern!r}, which matches in more than {MOST_WAYS} ways; simplify it"
            )

    def _refused(self, what: str, why: str) -> ConfigurationError:
        return ConfigurationError(
            f"{self.place} is {self.pattern!r}, with {what!r}, {why}; a response template is read without running its patterns"
        )


def _joined(way: Way) -> Way:
    """Return pieces with neighbouring texts joined."""
    return tuple(_joined_pieces(way))


def _joined_pieces(way: Way) -> Iterator[Piece]:
    text = ""
    for piece in way:
        if isinstance(piece, FixedText):
            text += piece.text
            continue
        if text:
            yield FixedText(text)
        text = ""
        yield piece
    if text:
        yield FixedText(text)
