"""The tokens of a grammar in Lark's syntax, and a place in them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple, NoReturn

from logitkit.errors import GrammarError
from logitkit.grammars.lark.draft import Draft
from logitkit.grammars.named import NamedGrammar
from logitkit.limits import Limits

__all__ = ["MAX_NESTED", "LarkToken", "LarkTokenReader", "tokens_of"]

_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t\f]|\\[ \t]*\r?\n)+)
    |(?P<comment>(?://|\#)[^\n]*)
    |(?P<newline>\r?\n)
    |(?P<regexp>/(?:\\.|[^/\\\n])+/[a-z]*|/(?:\\[\s\S]|[^/\\])+/[a-wy-z]*x[a-z]*)
    |(?P<string>"(?:\\.|[^"\\\n])*"i?(?![A-Za-z0-9_]))
    |(?P<modifier>[!?]+(?=_*[a-z]))
    |(?P<rule>_*[a-z](?:\w|-(?!>))*)
    |(?P<terminal>_*[A-Z](?:\w|-(?!>))*)
    |(?P<grammar>@[A-Za-z_](?:\w|-)*)
    |(?P<underscore>_(?![\w-]))
    |(?P<number>0[xX][0-9a-fA-F]+|[+-]?[0-9]+)
    |(?P<special><[^<>\s]+>)
    |(?P<directive>%[a-z_]+)
    |(?P<sign>->|\.\.|::=|::|[.:|()\[\]{},~*+?=;&])""",
    re.VERBOSE | re.ASCII,
)
# Directives that a JSON object follows, with the kinds of their tokens.
_WITH_OBJECTS = {"%json": "json", "%regex": "regex", "%llguidance": "options", "%grammar_options": "options"}
_EXAMPLES = {
    "%json": '%json {"type": "string"}',
    "%regex": '%regex {"substring_words": "some text"}',
    "%llguidance": "%llguidance {}",
    "%grammar_options": "%grammar_options {}",
}
MAX_NESTED = 8
"""The maximum nesting depth of grammars in `%lark`."""

_BLANKS = re.compile(r"\s*")
# Numbers are read when the schema is.
_JSON = json.JSONDecoder(parse_int=str, parse_float=str)
_NAME = re.compile(r"\w+")
_NO_TOKEN = {
    '"': 'this string is not closed on its line by ", or letters other than the flag i follow it',
    "/": r"this regular expression is empty or is not closed by / on its line; write a / inside it as \/",
    "'": "Lark's strings stand in double quotes",
    "<": "a special token is written <|name|> or <[id]>, without blanks",
    "@": "after @ stands the name of a grammar, as in @arguments; LLGuidance has no numbers there any more",
}


class LarkToken(NamedTuple):
    """One token.

    Args:
        kind: The name of its group in the expression above; "json", "regex" and "lark" for these directives with what stands in
            braces after them, and "options" for those with options; "end" after the last one.
        text: The token as written; of "json", "regex" and "options", the JSON object; of "lark", the text between the braces.
        begin: Where it begins in the grammar, in characters.
    """

    kind: str
    text: str
    begin: int


def tokens_of(grammar: str, begin: int = 0, nesting: int = 0) -> Iterator[LarkToken]:
    """Yield the tokens of a grammar, without blanks and comments.

    Args:
        grammar: The text.
        begin: Where to begin, in characters.
        nesting: How many nested grammars that place is in.

    Raises:
        GrammarError: Something is not a token.

    Example:
        >>> from logitkit.grammars.lark.tokens import tokens_of
        >>> [token.kind for token in tokens_of('start: "a" | B  // one of two')]
        ['rule', 'sign', 'string', 'sign', 'terminal', 'newline', 'end']
    """
    # Some editors begin a file with a byte order mark.
    at = begin or int(grammar.startswith("\ufeff"))
    while at < len(grammar):
        found = _TOKEN.match(grammar, at)
        if found is None:
            _refuse(grammar, at)
        kind = str(found.lastgroup)
        if found[0] in _WITH_OBJECTS:
            begin, end = _object(grammar, found[0], found.end())
            yield LarkToken(_WITH_OBJECTS[found[0]], grammar[begin:end], at)
            at = end
            continue
        if found[0] == "%lark":
            begin, end = _nested(grammar, at, nesting + 1)
            yield LarkToken("lark", grammar[begin:end], at)
            at = end + 1
            continue
        if kind not in ("blank", "comment"):
            yield LarkToken(kind, found[0], at)
        at = found.end()
    yield LarkToken("newline", "", len(grammar))
    yield LarkToken("end", "", len(grammar))


def _object(grammar: str, directive: str, at: int) -> tuple[int, int]:
    """Return where the JSON object after a directive begins and ends."""
    begin = _BLANKS.match(grammar, at).end()  # type: ignore[union-attr]
    what = "schema" if directive == "%json" else "object"
    if not grammar.startswith("{", begin):
        missing = "a JSON Schema" if directive == "%json" else "a JSON object"
        reason = f"{missing} is missing after {directive}, as in {_EXAMPLES[directive]}"
        raise GrammarError(reason, grammar, at - len(directive))
    try:
        return begin, _JSON.raw_decode(grammar, begin)[1]
    except RecursionError:
        raise GrammarError(f"the {what} after {directive} is nested too deeply", grammar, begin) from None
    except json.JSONDecodeError as error:
        raise GrammarError(f"the {what} after {directive} is not JSON: {error.msg}", grammar, error.pos) from None


def _nested(grammar: str, at: int, nesting: int) -> tuple[int, int]:
    """Return where the text in the braces after a `%lark` begins and ends."""
    if nesting > MAX_NESTED:
        raise GrammarError(f"grammars in %lark nest more than {MAX_NESTED} deep", grammar, at)
    begin = _BLANKS.match(grammar, at + len("%lark")).end()  # type: ignore[union-attr]
    if not grammar.startswith("{", begin):
        raise GrammarError('a grammar is missing after %lark, as in %lark { start: "a" }', grammar, at)
    opened = 0
    for token in tokens_of(grammar, begin, nesting):
        if token.kind == "sign":
            opened += (token.text == "{") - (token.text == "}")
            if not opened:
                return begin + 1, token.begin
    raise GrammarError("this %lark { is not closed by }", grammar, at)


def _refuse(grammar: str, at: int) -> NoReturn:
    """Raise the error of a text that is not a token."""
    reason = _NO_TOKEN.get(grammar[at], f"{grammar[at]!r} means nothing here")
    if found := _NAME.match(grammar, at):
        reason = (
            f"the name {found[0]!r} begins neither with a lower-case letter, as a rule does, nor with an upper-case one, as a "
            "terminal does; names have letters a-z or A-Z, digits, _ and -"
        )
    raise GrammarError(reason, grammar, at)


# The cost of a token.
_TOKEN_STEPS = 30


class LarkTokenReader:
    """Reads the tokens of a grammar one by one.

    Args:
        grammar: The text of the grammar.
        limits: Bounds on its size.
        named: The grammars that it may refer to.
    """

    def __init__(self, grammar: str, limits: Limits, named: Sequence[NamedGrammar] = ()) -> None:
        self.grammar = grammar
        self.limits = limits
        self.named = {one.name: one for one in named}
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

    def named_grammar(self, token: LarkToken) -> tuple[str, str]:
        """Return the text of a grammar that stands here by its name, and its kind."""
        found = self.named.get(token.text[1:])
        if found is None:
            given = ", ".join(f"@{name}" for name in list(self.named)[:5]) or "none"
            self.refuse(f"there is not a grammar {token.text}; pass it in grammars={{...}}; given are: {given}", token)
        return found.text, found.kind
