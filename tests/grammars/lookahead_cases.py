"""Terminals with lookaheads, and what Python's `re` reads of a text that begins with one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from logitkit.grammars.lark import LarkLexer

__all__ = ["LookaheadCase", "lookahead_cases"]

# Patterns that a lookahead looks for.
SOUGHT = ("ab", "a|bb", "abb|ba", "[ab]{3}", "b*a", "[ab]*x", "a.", "ab\\b", "(?:a|bx)\\b", "x?ab", "(?!aa)a", "a$", "")
# Patterns of the terminal without its lookaheads.
READ = (
    "[ab]+",
    "[abx]+",
    "\\w+",
    "a[bx]*",
    "[ab]{2}",
    "(?:ab|a)x?",
    "[ab]+x",
    "[ab]*?x",
    "a(?:bx)?",
    "[^(]+",
    "[ab]+\\b",
)


@dataclass(frozen=True)
class LookaheadCase:
    """A terminal, and what may follow it."""

    terminal: str
    rest: str

    @property
    def grammar(self) -> str:
        return f"start: A | A REST\nA: /{self.terminal}/\nREST: /{self.rest}/\n"

    def reads(self, text: str, lexer: LarkLexer) -> bool:
        """Whether the terminal is what a search finds at the beginning, or may find under "dynamic", and the rest follows."""
        if lexer == "dynamic":
            # The lookbehind says that the terminal has a character.
            return re.fullmatch(f"(?:{self.terminal})(?<=(?s:.))(?:{self.rest})?", text) is not None
        found = re.match(self.terminal, text)
        return found is not None and found.end() > 0 and bool(re.fullmatch(f"(?:{self.rest})?", text[found.end() :]))

    def texts(self) -> Iterator[str]:
        """Yield all texts of up to four characters."""
        for length in range(1, 5):
            yield from map("".join, product("abx(", repeat=length))


@st.composite
def lookahead_cases(draw: DrawFn) -> LookaheadCase:
    """Draw a terminal with one or two lookaheads at its beginning, or after a character."""
    looks = st.tuples(st.sampled_from(("(?!", "(?!", "(?=")), st.sampled_from(SOUGHT)).map(
        lambda two: f"{two[0]}{two[1]})"
    )
    before = draw(st.sampled_from(("", "", "", "a", "[ab]")))
    found = "".join(draw(st.lists(looks, min_size=1, max_size=2)))
    return LookaheadCase(
        before + found + draw(st.sampled_from(READ)), draw(st.sampled_from(("\\(.*", "[x(]+", "[abx(]+")))
    )
