"""Hypothesis strategies: patterns of the whole dialect that `re` accepts, and texts that (nearly) match."""

from __future__ import annotations

import re
import unicodedata
import warnings
from dataclasses import dataclass
from functools import cache, lru_cache

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from logitkit.patterns import Alternate, Atomic, Characters, CharSet, Concat, Node, Repeat, parse
from logitkit.patterns.charset import SURROGATES

ALPHABET = "abcABCzZkKsS019_-., #\n\t\x1cßẞſKıİéÉσςΣµμΩωῼ\u0345ﬅ\u2028日𐐀𐐨😀"
"""Characters with every kind of case, width in UTF-8, class and line end."""

_GROUP_NAME = "\ue000"
_LONGEST_TEXT = 24


# Making a strategy costs more than drawing from it, so each is made once.
@cache
def _pick(options: tuple[str, ...] | str) -> SearchStrategy[str]:
    return st.sampled_from(options)


@cache
def _count(*options: int) -> SearchStrategy[int]:
    return st.sampled_from(options)


@dataclass(frozen=True)
class _Dialect:
    lookarounds: bool
    anchors: bool
    atomic: bool
    flags: bool


def patterns(
    *, lookarounds: bool = True, anchors: bool = True, atomic: bool = True, flags: bool = True, depth: int = 3
) -> SearchStrategy[str]:
    """Patterns that `re.compile` accepts and whose language is regular.

    Args:
        lookarounds: Whether to draw `(?=...)`, `(?!...)`, `(?<=...)` and `(?<!...)`.
        anchors: Whether to draw `^`, `$`, `\\A`, `\\Z`, `\\b` and `\\B`.
        atomic: Whether to draw atomic groups and possessive quantifiers.
        flags: Whether to draw inline flags, global and scoped.
        depth: How deep groups stand in each other.
    """
    return _patterns(_Dialect(lookarounds, anchors, atomic, flags), depth).filter(_accepted)


@st.composite
def texts_for(draw: DrawFn, pattern: str) -> str:
    """Texts that match a pattern, or would but for lookarounds, anchors or a few edits; and a few others."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.text(ALPHABET, max_size=6))
    text = _sample(draw, parse(pattern))[:_LONGEST_TEXT]
    for _ in range(draw(_count(0, 0, 0, 1, 1, 2))):
        at = draw(st.integers(0, len(text)))
        match draw(_pick(("insert", "delete", "case", "replace", "newline"))):
            case "insert":
                text = text[:at] + draw(_pick(ALPHABET)) + text[at:]
            case "delete":
                text = text[:at] + text[at + 1 :]
            case "case":
                text = text[:at] + text[at : at + 1].swapcase() + text[at + 1 :]
            case "replace":
                text = text[:at] + draw(_pick(ALPHABET)) + text[at + 1 :]
            case _:
                text += "\n"
    return text


def matches_in_re(pattern: str, text: str) -> bool:
    """Tell whether `re` matches the whole text, without its warnings about brackets inside brackets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return re.fullmatch(pattern, text) is not None


def _accepted(pattern: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            re.compile(pattern)
        except (re.error, ValueError, OverflowError):
            return False
    return True


@cache
@st.composite
def _patterns(draw: DrawFn, dialect: _Dialect, depth: int) -> str:
    prefix = ""
    if dialect.flags:
        prefix = draw(_pick(("",) * 6 + ("(?i)", "(?i)", "(?s)", "(?m)", "(?a)", "(?x)", "(?ia)", "(?imsx)")))
    body = draw(_alternation(dialect, depth))
    if "x" in prefix:
        body = "  # a comment (\\\n)\n" + body
    counted = iter(range(1000))
    return re.sub(_GROUP_NAME, lambda _: f"n{next(counted)}", prefix + body)


@cache
@st.composite
def _alternation(draw: DrawFn, dialect: _Dialect, depth: int) -> str:
    return "|".join(draw(_sequence(dialect, depth)) for _ in range(draw(_count(1, 1, 2, 3))))


@cache
@st.composite
def _sequence(draw: DrawFn, dialect: _Dialect, depth: int) -> str:
    return "".join(draw(_piece(dialect, depth)) for _ in range(draw(_count(0, 1, 2, 2, 3, 4))))


@cache
@st.composite
def _piece(draw: DrawFn, dialect: _Dialect, depth: int) -> str:
    if dialect.anchors and draw(st.integers(0, 9)) == 0:
        return draw(_pick(("^", "$", r"\A", r"\Z", r"\b", r"\b", r"\B", "(?:^)", "(?:$)*")))
    atom = draw(_group(dialect, depth)) if depth and draw(st.integers(0, 3)) == 0 else draw(_atom())
    return atom + draw(_quantifier(dialect))


@cache
@st.composite
def _quantifier(draw: DrawFn, dialect: _Dialect) -> str:
    if draw(st.booleans()):
        return ""
    least, more = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    counts = (f"{{{least}}}", f"{{{least},}}", f"{{,{more}}}", f"{{{least},{least + more}}}", "{,}")
    sign = draw(_pick(("*", "+", "?", *counts)))
    return sign + draw(_pick(("", "", "?", "+") if dialect.atomic else ("", "?")))


@cache
@st.composite
def _group(draw: DrawFn, dialect: _Dialect, depth: int) -> str:
    kinds = ["(?:", "(", f"(?P<{_GROUP_NAME}>"]
    if dialect.flags:
        kinds += ["(?i:", "(?s:", "(?m:", "(?a:", "(?u:", "(?-i:", "(?i-s:", "(?ai:", "(?x:", "(?-x:"]
    if dialect.atomic:
        kinds += ["(?>"] * 3
    if dialect.lookarounds:
        kinds += ["(?=", "(?!"] * 2 + ["(?<=", "(?<!"] * 2
    kind = draw(_pick(tuple(kinds)))
    body = draw(_fixed_width(dialect) if kind.startswith("(?<") else _alternation(dialect, depth - 1))
    return f"{kind}{body})"


@cache
@st.composite
def _fixed_width(draw: DrawFn, dialect: _Dialect) -> str:
    width = draw(st.integers(0, 2))
    options = ["".join(draw(_atom()) for _ in range(width)) for _ in range(draw(st.integers(1, 2)))]
    condition = draw(_pick(("", "", "^", r"\b", "(?!c)") if dialect.anchors else ("", "(?!c)")))
    return condition + "|".join(options)


@cache
def _atom() -> SearchStrategy[str]:
    odd = (
        "{",
        "{}",
        "a{x",
        "}",
        "]",
        "a{1",
        "{,x}",
        "(?#a\\)b)",
        "[[a]",
        "[a&&b]",
        "[a||b]",
        "[!--b]",
        "[]a]",
        "[^]a]",
        r"\ud801",
        r"[^\udc01]",
        r"[^\ud83c\udf00]",
    )
    return st.one_of(
        _literal(),
        _literal(),
        st.sampled_from((".", r"\d", r"\w", r"\s", r"\D", r"\W", r"\S", ".", r"\w")),
        _bracketed(),
        st.sampled_from(odd),
    )


@cache
@st.composite
def _literal(draw: DrawFn, in_class: bool = False) -> str:
    character = draw(_pick(ALPHABET))
    code = ord(character)
    ways = [re.escape(character)] * 4 + [f"\\U{code:08x}"]
    if not character.isalnum() or not character.isascii():
        ways.append("\\" + character)
    if code < 0x100:
        ways += [f"\\x{code:02x}", f"\\{code:03o}"]
    if code < 0x10000:
        ways.append(f"\\u{code:04X}")
    if name := unicodedata.name(character, ""):
        ways.append(f"\\N{{{name}}}")
    if in_class:
        ways += [r"\b", r"\a"]
    return draw(_pick(tuple(ways)))


@cache
@st.composite
def _bracketed(draw: DrawFn) -> str:
    items = [draw(_class_item()) for _ in range(draw(st.integers(1, 4)))]
    ends = draw(_pick(("", "", "", "-")))
    return f"[{draw(_pick(('', '', '^')))}{''.join(items)}{ends}]"


@cache
def _class_item() -> SearchStrategy[str]:
    ranges = (
        "a-z",
        "A-Z",
        "0-9",
        "a-c",
        "B-k",
        "α-ω",
        "À-ÿ",
        "!-~",
        r"\x00-\x7f",
        "ſ-ǿ",
        "\u0300-\uffff",
        "𐐀-𐐧",
        "é-😀",
        r"\ud801",
        r"\ud7ff-\ue000",
        r"\udc00-\uffff",
    )
    return st.one_of(
        _literal(in_class=True),
        st.sampled_from(ranges),
        st.sampled_from((r"\d", r"\w", r"\s", r"\D", r"\W", r"\S")),
    )


def _sample(draw: DrawFn, node: Node) -> str:
    match node:
        case Characters(charset):
            return draw(_pick(_members(charset))) if charset else ""
        case Concat(parts):
            return "".join(_sample(draw, part) for part in parts)
        case Alternate(options):
            return _sample(draw, draw(st.sampled_from(options)))
        case Repeat(inner, minimum, maximum):
            most = minimum + 2 if maximum is None else min(maximum, minimum + 2)
            return "".join(_sample(draw, inner) for _ in range(draw(st.integers(minimum, most))))
        case Atomic(inner):
            return _sample(draw, inner)
        case _:
            return ""


@lru_cache(maxsize=1024)
def _members(charset: CharSet) -> str:
    """A few characters of a set: those of the alphabet, and the ends of its ranges."""
    known = "".join(character for character in ALPHABET if ord(character) in charset)
    ends = "".join(chr(end) for pair in charset.ranges[:4] for end in pair if not 0xD800 <= end <= 0xDFFF)
    return known + ends or chr(next(iter(charset - SURROGATES), ord("a")))
