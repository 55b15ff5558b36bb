"""The tokens of a grammar in Lark's syntax.

A newline is a token, because it ends a definition, unless the next line begins with `|`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from logitkit.errors import GrammarError

__all__ = ["LarkToken", "tokens_of"]

_TOKEN = re.compile(
    r"""(?P<blank>(?:[ \t\f]|\\[ \t]*\r?\n)+)
    |(?P<comment>(?://|\#)[^\n]*)
    |(?P<newline>\r?\n)
    |(?P<regexp>/(?:\\.|[^/\\\n])+/[a-z]*|/(?:\\[\s\S]|[^/\\])+/[a-wy-z]*x[a-z]*)
    |(?P<string>"(?:\\.|[^"\\\n])*"i?(?![A-Za-z0-9_]))
    |(?P<modifier>[!?]+(?=_*[a-z]))
    |(?P<rule>_*[a-z](?:\w|-(?!>))*)
    |(?P<terminal>_*[A-Z](?:\w|-(?!>))*)
    |(?P<number>[+-]?[0-9]+)
    |(?P<special><[^<>\s]+>)
    |(?P<directive>%[a-z_]+)
    |(?P<sign>->|\.\.|::=|[.:|()\[\]{},~*+?=;&])""",
    re.VERBOSE | re.ASCII,
)
_BLANKS = re.compile(r"\s*")
# Numbers are read when the schema is.
_JSON = json.JSONDecoder(parse_int=str, parse_float=str)
_NAME = re.compile(r"\w+")
_NO_TOKEN = {
    '"': 'this string is not closed on its line by ", or letters other than the flag i follow it',
    "/": r"this regular expression is empty or is not closed by / on its line; write a / inside it as \/",
    "'": "Lark's strings stand in double quotes",
    "<": "a special token is written <|name|> or <[id]>, without blanks",
    "@": "grammars by name, as in @name, are not supported; put their rules into this grammar under other names",
}


class LarkToken(NamedTuple):
    """One token.

    Args:
        kind: The name of its group in the expression above; "json" for `%json` with its schema; "end" after the last one.
        text: The token as written; of "json", the schema.
        begin: Where it begins in the grammar, in characters.
    """

    kind: str
    text: str
    begin: int


def tokens_of(grammar: str) -> Iterator[LarkToken]:
    """Yield the tokens of a grammar, without blanks and comments.

    Raises:
        GrammarError: Something is not a token.

    Example:
        >>> from logitkit.grammars.lark.tokens import tokens_of
        >>> [token.kind for token in tokens_of('start: "a" | B  // one of two')]
        ['rule', 'sign', 'string', 'sign', 'terminal', 'newline', 'end']
    """
    # Some editors begin a file with a byte order mark.
    at = int(grammar.startswith("\ufeff"))
    while at < len(grammar):
        found = _TOKEN.match(grammar, at)
        if found is None:
            _refuse(grammar, at)
        kind = str(found.lastgroup)
        if found[0] == "%json":
            begin, end = _schema(grammar, found.end())
            yield LarkToken("json", grammar[begin:end], at)
            at = end
            continue
        if kind not in ("blank", "comment"):
            yield LarkToken(kind, found[0], at)
        at = found.end()
    yield LarkToken("newline", "", len(grammar))
    yield LarkToken("end", "", len(grammar))


def _schema(grammar: str, at: int) -> tuple[int, int]:
    """Return where the schema of a `%json` begins and ends."""
    begin = _BLANKS.match(grammar, at).end()  # type: ignore[union-attr]
    if not grammar.startswith("{", begin):
        raise GrammarError('a JSON Schema is missing after %json, as in %json {"type": "string"}', grammar, at - 5)
    try:
        return begin, _JSON.raw_decode(grammar, begin)[1]
    except RecursionError:
        raise GrammarError("the schema after %json is nested too deeply", grammar, begin) from None
    except json.JSONDecodeError as error:
        raise GrammarError(f"the schema after %json is not JSON: {error.msg}", grammar, error.pos) from None


def _refuse(grammar: str, at: int) -> NoReturn:
    """Raise the error of a text that is not a token."""
    reason = _NO_TOKEN.get(grammar[at], f"{grammar[at]!r} means nothing here")
    if found := _NAME.match(grammar, at):
        reason = (
            f"the name {found[0]!r} begins neither with a lower-case letter, as a rule does, nor with an upper-case one, as a "
            "terminal does; names have letters a-z or A-Z, digits, _ and -"
        )
    raise GrammarError(reason, grammar, at)
