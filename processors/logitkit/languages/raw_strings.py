"""The strings that may stand between tags as raw text, for parsers that change some of them."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, TypeAlias

from logitkit.budget import outside_budget
from logitkit.compiler.characters.text_search import Search
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError
from logitkit.limits import Limits
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Machine

__all__ = ["RawStrings", "names_matching", "openings_of", "raw_texts", "texts_without"]

RawStrings: TypeAlias = Literal["any", "trimmed", "unlike_json"]

# Patterns of names may come from a stranger, and are kept.
LONGEST_PATTERN, _NAME_LIMITS = 500, Limits(states=2000, work=500_000)

# All that `str.strip` takes away.
_SPACE = r"[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
_NOT_TRIMMED = rf"(?s:{_SPACE}.*|.*{_SPACE})"
# Texts that `json.loads` reads, and some more that begin and end like them. In the first, those that are not values of JSON.
_QUOTED = r'(?s:".*")|NaN|-?Infinity'
_LIKE_JSON = r"(?s:\[.*\]|\{.*\})|true|false|null|-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"


@lru_cache(maxsize=64)
@outside_budget()
def raw_texts(
    marker: str, kind: RawStrings, may_be_json: bool, limits: Limits, free_of: tuple[str, ...] = ()
) -> TextLanguage:
    """Return the texts that may stand between tags.

    Args:
        marker: The text after them, which does not occur in them.
        kind: Which strings may be written, as in `ToolFormat`.
        may_be_json: Whether the text may also be any other value, as JSON.
        limits: Bounds on the automata.
        free_of: Other texts that do not occur in them.
    """
    found = texts_without(marker, limits)
    for text in free_of:
        found &= texts_without(text, limits)
    if kind != "any":
        found -= TextLanguage.of_tree(parse(_NOT_TRIMMED), limits)
    if kind == "unlike_json":
        like_json = _QUOTED if may_be_json else f"{_QUOTED}|{_LIKE_JSON}"
        found -= TextLanguage.of_tree(parse(like_json), limits)
    return found


@lru_cache(maxsize=64)
def texts_without(marker: str, limits: Limits) -> TextLanguage:
    """Return the texts in which a marker does not occur."""
    search = Search.of([[tuple(map(ord, marker))]], (), limits)
    return TextLanguage.of_tree(Machine(search.moves, (True,) * len(search.moves)), limits)


@lru_cache(maxsize=64)
@outside_budget()
def names_matching(pattern: str) -> TextLanguage:
    """Return the texts that match a pattern of names as a whole.

    Raises:
        ConfigurationError: The pattern is too long.
        PatternSyntaxError: It is not valid, or not regular.
        PatternTooLarge: It has too many states.
    """
    if len(pattern) > LONGEST_PATTERN:
        raise ConfigurationError(f"a pattern of names has {len(pattern)} characters; allowed are {LONGEST_PATTERN}")
    return TextLanguage.of_tree(parse(pattern), _NAME_LIMITS)


def openings_of(texts: TextLanguage) -> str:
    """Return the brackets that some texts may begin with."""
    first = [] if texts.dfa is None else [texts.charset(mask) for mask in texts.dfa.moves[0].values()]
    return "".join(bracket for bracket in "{[" if any(ord(bracket) in charset for charset in first))
