"""A place in a grammar in GBNF: what is skipped, and what is said of a sign that is not allowed there."""

from __future__ import annotations

import re
from typing import NoReturn

from logitkit.errors import GrammarError

__all__ = ["NAME", "SPACE", "SPACE_OR_NEWLINE", "GbnfText"]

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
