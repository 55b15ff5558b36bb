"""Recognition of texts that are in another notation than the one they were given as, or use its macros."""

from __future__ import annotations

import json
import re
from typing import Literal

from logitkit.errors import PatternSyntaxError
from logitkit.patterns import parse

__all__ = ["macros", "recognized"]

_MACROS = {
    "ExcludeToken": "write !<[10]> in GBNF",
    "Regex": "write it with classes and repetitions, as in [a-z]+, or as /.../ in Lark's syntax",
    "Substring": "write its texts as options",
    "TagDispatch": "use a structural tag",
    "Token": "write <[10]>",
    "TokenTagDispatch": "use a structural tag",
}
_MACRO_DEFINITION = re.compile(rf"^[ \t]*[?!]{{0,2}}({'|'.join(_MACROS)})(?:\.-?\d+)?[ \t]*:", re.MULTILINE)

_GBNF = re.compile(r"^[ \t]*[\w-]+[ \t]*::=", re.MULTILINE)
_LARK = re.compile(
    r"^[ \t]*(?:%(?:import|ignore|declare|override|extend)\b|[?!]{0,2}\w+(?:\.-?\d+)?[ \t]*:(?![:=]))", re.MULTILINE
)
# A regular expression is searched for only in short texts: nobody writes a long one by mistake for a grammar.
_LONGEST_PATTERN = 1000
_SIGNS = re.compile(r"[\\^$|*+?(){}\[\]]")


def macros(text: str) -> dict[str, str]:
    """Return the macros of XGrammar, which are written like calls of functions, with what is said of each.

    Args:
        text: The grammar. Names that it defines are left out: what follows them is a group.

    Example:
        >>> macros('root ::= Token("a")')["Token"]
        "XGrammar's macro Token(...) is not supported; write <[10]>"
        >>> "Token" in macros('Token ::= "a"')
        False
    """
    defined = set(_MACRO_DEFINITION.findall(text))
    return {
        name: f"XGrammar's macro {name}(...) is not supported; {instead}"
        for name, instead in _MACROS.items()
        if name not in defined
    }


def recognized(text: str, syntax: Literal["gbnf", "lark"]) -> str | None:
    """Say which other notation a grammar that could not be read seems to be in, and how to pass it; None if none.

    Args:
        text: The grammar.
        syntax: The notation that it could not be read as.

    Example:
        >>> recognized("start: WORD", "gbnf")
        "this looks like a grammar of Lark; pass syntax='lark'"
    """
    if text.lstrip().startswith("{"):
        try:
            if isinstance(json.loads(text), dict):
                return "this looks like a JSON Schema; use JsonSchema instead of Grammar"
        except (ValueError, RecursionError):
            return None
    is_gbnf, is_lark = _GBNF.search(text) is not None, _LARK.search(text) is not None
    if syntax == "gbnf" and is_lark and not is_gbnf:
        return "this looks like a grammar of Lark; pass syntax='lark'"
    if syntax == "lark" and is_gbnf and not is_lark:
        return "this looks like a grammar in GBNF; pass syntax='gbnf'"
    if not is_gbnf and not is_lark and _is_pattern(text):
        return "this looks like a regular expression; use Regex instead of Grammar"
    return None


def _is_pattern(text: str) -> bool:
    if len(text) > _LONGEST_PATTERN or "\n" in text.strip() or re.search('["=]', text) or not _SIGNS.search(text):
        return False
    try:
        parse(text)
    except PatternSyntaxError:
        return False
    return True
