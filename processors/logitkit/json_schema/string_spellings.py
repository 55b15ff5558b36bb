r"""Other spellings of strings than the usual one of JSON, each exactly as some templates write them.

    json     "é 😀 it's \u001f"              as `json.dumps(..., ensure_ascii=False)` writes it; see `string_text`
    ascii    "\u00e9 \ud83d\ude00 it's ..."  as `json.dumps` writes it by default
    python   "é 😀 it's \x1f"                as Python shows a string: between single quotes, or between double quotes if it
                                             holds single quotes only

Python shows code points without a character as numbers, and which these are depends on its version of Unicode. Here they are
written as they are.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias

from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.string_text import BACKSLASH, SHORT
from logitkit.limits import Limits
from logitkit.patterns.charset import MAX_CODE_POINT, CharSet
from logitkit.patterns.syntax import Alternate, Characters, Concat, Machine, Node

__all__ = ["StringSpelling", "python_string", "spelled_strings", "spelled_text"]

StringSpelling: TypeAlias = Literal["json", "ascii", "python"]

# The moves of a state, and the characters that lead to states: characters and where they lead.
_Ways: TypeAlias = tuple[tuple[CharSet, int], ...]

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_PRINTED_ASCII = CharSet.of([(0x20, 0x7E)])
_SURROGATES, _ASTRAL = CharSet.of([(0xD800, 0xDFFF)]), CharSet.of([(0x10000, MAX_CODE_POINT)])
# Control and format characters, spaces other than U+0020, ends of lines and paragraphs, and characters for private use.
_NOT_PRINTED = CharSet.of(
    [
        *((0x00, 0x1F), (0x7F, 0xA0), (0xAD, 0xAD), (0x600, 0x605), (0x61C, 0x61C), (0x6DD, 0x6DD), (0x70F, 0x70F)),
        *((0x890, 0x891), (0x8E2, 0x8E2), (0x1680, 0x1680), (0x180E, 0x180E), (0x2000, 0x200F), (0x2028, 0x202F)),
        *((0x205F, 0x2064), (0x2066, 0x206F), (0x3000, 0x3000), (0xE000, 0xF8FF), (0xFEFF, 0xFEFF), (0xFFF9, 0xFFFB)),
        *((0x110BD, 0x110BD), (0x110CD, 0x110CD), (0x13430, 0x1343F), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A)),
        *((0xE0001, 0xE0001), (0xE0020, 0xE007F), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD)),
    ]
)
# The cost of a range of characters that are written as numbers, in steps.
_STEPS_A_RANGE = 4


def spelled_text(text: str, spelling: StringSpelling) -> str:
    r"""Return the JSON text of a string, or of a value without white space, with its strings in another spelling.

    Example:
        >>> print(spelled_text('["it is é"]', "ascii"), spelled_text('["it is é"]', "python"))
        ["it is \u00e9"] ['it is é']
    """
    if spelling == "json":
        return text
    written = json.dumps if spelling == "ascii" else python_string
    return _STRING.sub(lambda found: written(json.loads(found.group())), text)


def python_string(text: str) -> str:
    r"""Return a string as Python shows it.

    Example:
        >>> print(python_string("it's"), python_string("\n\x1f\u2028"))
        "it's" '\n\x1f\u2028'
    """
    quote = '"' if "'" in text and '"' not in text else "'"
    spelling = _python(quote)
    return quote + "".join(_python_character(ord(character), spelling) for character in text) + quote


def _python_character(code_point: int, spelling: _Spelling) -> str:
    short = spelling.short.get(code_point)
    if short is not None:
        return "\\" + short
    for letter, digits, characters in spelling.numbered:
        if code_point in characters:
            return f"\\{letter}{code_point:0{digits}x}"
    return chr(code_point)


def spelled_strings(language: TextLanguage, spelling: StringSpelling) -> Node:
    r"""Return the tree of some strings between quotes.

    Raises:
        PatternTooLarge: There are too many states.
        ValueError: The language has no strings.

    Example:
        >>> from logitkit.compiler.language import byte_dfa_of
        >>> from logitkit.limits import DEFAULT_LIMITS
        >>> both = TextLanguage.of_texts(["é", "'"], DEFAULT_LIMITS)
        >>> ascii = byte_dfa_of(spelled_strings(both, "ascii"), DEFAULT_LIMITS)
        >>> python = byte_dfa_of(spelled_strings(both, "python"), DEFAULT_LIMITS)
        >>> ascii.accepts(b'"\\u00e9"'), python.accepts(b'''"'"'''), python.accepts("'é'".encode())
        (True, True, True)
    """
    if spelling == "ascii":
        return _quoted(language, _ascii())
    only_single = _with_single_quotes_only(language.limits)
    ways = [(language - only_single, "'"), (language & only_single, '"')]
    found = [_quoted(texts, _python(quote)) for texts, quote in ways if not texts.is_empty]
    if not found:
        raise ValueError("the language has no strings")
    return Alternate(tuple(found)) if len(found) > 1 else found[0]


@dataclass(frozen=True)
class _Spelling:
    """How characters are written between two quotes.

    Args:
        quote: The quote.
        raw: The characters that stand for themselves.
        short: The letter after a backslash for others.
        numbered: For the rest: the letter after a backslash, how many hexadecimal digits come after it, and which characters.
        in_pairs: Whether the others are written as two surrogates.
    """

    quote: str
    raw: CharSet
    short: Mapping[int, str]
    numbered: tuple[tuple[str, int, CharSet], ...]
    in_pairs: bool


@cache
def _ascii() -> _Spelling:
    raw = _PRINTED_ASCII - CharSet.from_string('"\\')
    numbers = CharSet.of([(0, 0xFFFF)]) - raw - CharSet.of((c, c) for c in SHORT) - _SURROGATES
    return _Spelling('"', raw, SHORT, (("u", 4, numbers),), in_pairs=True)


@cache
def _python(quote: str) -> _Spelling:
    short = {ord("\\"): "\\", ord("\n"): "n", ord("\r"): "r", ord("\t"): "t", ord(quote): quote}
    listed = CharSet.of((c, c) for c in short)
    rest = _NOT_PRINTED - listed
    kinds = (("x", 2, (0, 0xFF)), ("u", 4, (0x100, 0xFFFF)), ("U", 8, (0x10000, MAX_CODE_POINT)))
    numbered = tuple((letter, digits, rest & CharSet((pair,))) for letter, digits, pair in kinds)
    return _Spelling(quote, ~(rest | listed | _SURROGATES), short, numbered, in_pairs=False)


@lru_cache(maxsize=8)
def _with_single_quotes_only(limits: Limits) -> TextLanguage:
    """Return the texts with single quotes and without double quotes."""
    single, double = CharSet.from_string("'"), CharSet.from_string('"')
    moves = (((~(single | double), 0), (single, 1)), ((~double, 1),))
    return TextLanguage.of_tree(Machine(moves, (False, True)), limits)


def _quoted(language: TextLanguage, spelling: _Spelling) -> Node:
    return Concat((Characters(CharSet.from_string(spelling.quote)), _Writer(language, spelling).machine()))


class _Writer:
    """Writes an automaton over the characters of strings as one over those of their texts, without the opening quote."""

    def __init__(self, language: TextLanguage, spelling: _Spelling) -> None:
        if language.dfa is None:
            raise ValueError("the language has no strings")
        self.language, self.spelling, self.dfa = language, spelling, language.dfa
        self.end = len(self.dfa.moves)
        # After the states of the strings come the end and those inside an escape, of which equal ones are one.
        self.rows: list[_Ways] = [()] * (self.end + 1)
        self.inner: dict[_Ways, int] = {}
        self.read: dict[tuple[_Ways, int], int] = {}

    def machine(self) -> Machine:
        for state in range(self.end):
            self.rows[state] = self.row(state)
            self.language.limits.check_states(len(self.rows))
        return Machine(tuple(self.rows), tuple(state == self.end for state in range(len(self.rows))))

    def row(self, state: int) -> _Ways:
        spelling = self.spelling
        ways = [(self.language.charset(mask), target) for target, mask in self.dfa.moves[state].items()]
        self.language.limits.spend(_STEPS_A_RANGE * sum(len(charset.ranges) for charset, _ in ways))
        row = _among(ways, spelling.raw)
        escape = [
            (CharSet.from_string(letters), target)
            for charset, target in ways
            if (letters := "".join(letter for c, letter in spelling.short.items() if c in charset))
        ]
        for letter, digits, characters in spelling.numbered:
            numbers = [*_among(ways, characters), *(self.pairs(ways) if spelling.in_pairs else [])]
            if numbers:
                escape.append((CharSet.from_string(letter), self.number(tuple(numbers), digits)))
        if escape:
            row.append((BACKSLASH, self.inside(tuple(escape))))
        if self.dfa.accepting[state]:
            row.append((CharSet.from_string(spelling.quote), self.end))
        return tuple(row)

    def number(self, ways: _Ways, digits: int) -> int:
        """Return the state before the hexadecimal digits of some numbers."""
        known = self.read.get((ways, digits))
        if known is not None:
            return known
        size = 16 ** (digits - 1)
        leads: dict[int, list[tuple[int, int]]] = {}
        for digit in range(16):
            first = digit * size
            inside = _among(ways, CharSet(((first, first + size - 1),)))
            if not inside:
                continue
            rest = tuple((CharSet(tuple((a - first, b - first) for a, b in c.ranges)), target) for c, target in inside)
            target = rest[0][1] if digits == 1 else self.number(rest, digits - 1)
            letter = ord(f"{digit:x}")
            leads.setdefault(target, []).append((letter, letter))
        found = self.inside(tuple((CharSet.of(letters), target) for target, letters in leads.items()))
        self.read[ways, digits] = found
        return found

    def pairs(self, ways: list[tuple[CharSet, int]]) -> list[tuple[CharSet, int]]:
        """Return the first surrogates of characters that are written as two, and the states after them."""
        spans = [
            span
            for charset, target in ways
            for first, last in (charset & _ASTRAL).ranges
            for span in _spans(first - 0x10000, last - 0x10000, target)
        ]
        edges = sorted({edge for first, last, *_ in spans for edge in (first, last + 1)})
        seconds: list[dict[int, list[tuple[int, int]]]] = [{} for _ in edges]
        for first, last, low, high, target in spans:
            for at in range(bisect_left(edges, first), bisect_left(edges, last + 1)):
                seconds[at].setdefault(target, []).append((0xDC00 + low, 0xDC00 + high))
        found: dict[int, list[tuple[int, int]]] = {}
        for (first, end), leads in zip(pairwise(edges), seconds, strict=False):
            if leads:
                number = self.number(tuple((CharSet.of(pairs), target) for target, pairs in leads.items()), 4)
                after = self.inside(((BACKSLASH, self.inside(((CharSet.from_string("u"), number),))),))
                found.setdefault(after, []).append((0xD800 + first, 0xD800 + end - 1))
        return [(CharSet.of(pairs), target) for target, pairs in found.items()]

    def inside(self, row: _Ways) -> int:
        """Return the state inside an escape with these moves."""
        found = self.inner.setdefault(row, len(self.rows))
        if found == len(self.rows):
            self.rows.append(row)
        return found


def _among(ways: list[tuple[CharSet, int]] | _Ways, characters: CharSet) -> list[tuple[CharSet, int]]:
    return [(some, target) for charset, target in ways if (some := charset & characters)]


def _spans(first: int, last: int, target: int) -> list[tuple[int, int, int, int, int]]:
    """Cut a range of characters so that each of the first surrogates of a part is followed by the same second ones.

    Returns:
        The first and last one of the first surrogates, those of the second, and the target.
    """
    (begin, low), (end, high) = divmod(first, 0x400), divmod(last, 0x400)
    if begin == end:
        return [(begin, end, low, high, target)]
    found = []
    if low:
        found.append((begin, begin, low, 0x3FF, target))
        begin += 1
    if high < 0x3FF:
        found.append((end, end, 0, high, target))
        end -= 1
    return [*found, (begin, end, 0, 0x3FF, target)] if begin <= end else found
