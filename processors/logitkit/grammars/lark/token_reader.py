"""A place in the tokens of a grammar in Lark's syntax: what comes next is taken, expected or refused."""

from __future__ import annotations

from typing import NoReturn

from logitkit.errors import GrammarError
from logitkit.grammars.lark.draft import Draft
from logitkit.grammars.lark.tokens import LarkToken, tokens_of
from logitkit.limits import Limits

__all__ = ["LarkTokenReader"]

# The cost of a token.
_TOKEN_STEPS = 30


class LarkTokenReader:
    """Reads the tokens of a grammar one by one.

    Args:
        grammar: The text of the grammar.
        limits: Bounds on its size.
    """

    def __init__(self, grammar: str, limits: Limits) -> None:
        self.grammar = grammar
        self.limits = limits
        self.tokens: list[LarkToken] = []
        for token in tokens_of(grammar):
            limits.spend(_TOKEN_STEPS)
            self.tokens.append(token)
        self.at = 0
        self.draft = Draft(grammar)

    @property
    def here(self) -> LarkToken:
        """The next token."""
        return self.tokens[self.at]

    def take(self) -> LarkToken:
        """Return the next token, and go on to the one after it."""
        token = self.tokens[self.at]
        self.at += 1
        return token

    def takes(self, sign: str) -> bool:
        """Take a sign, if it comes next."""
        found = self.here.text == sign and self.here.kind == "sign"
        self.at += found
        return found

    def expect(self, kind: str, what: str, sign: str = "") -> LarkToken:
        """Take a token of a kind; without one, raise that `what` is missing."""
        token = self.take()
        if token.kind != kind or (sign and token.text != sign):
            self.refuse(f"{what} is missing here", token)
        return token

    def refuse(self, reason: str, token: LarkToken) -> NoReturn:
        """Raise an error at a token."""
        raise GrammarError(reason, self.grammar, token.begin)

    def integer(self, what: str) -> int:
        """Take a number; without one, raise that `what` is missing."""
        token = self.expect("number", what)
        if len(token.text) > 9:
            self.refuse("this number has more than 9 digits", token)
        return int(token.text)
