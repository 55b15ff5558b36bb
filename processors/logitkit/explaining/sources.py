"""Where what may come next stands in the definition of a constraint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.language import pattern_dfa
from logitkit.constraints.choice import Choice
from logitkit.constraints.forced_prefix import ForcedPrefix
from logitkit.constraints.grammar import Grammar
from logitkit.constraints.json_schema import JsonSchema
from logitkit.constraints.regex import Regex
from logitkit.constraints.texts import as_bytes
from logitkit.constraints.then import Then
from logitkit.errors import LogitkitError
from logitkit.explaining import schema_reasons
from logitkit.explaining.findings import Source
from logitkit.explaining.pattern_sources import assertion_sources, pattern_sources
from logitkit.explaining.rule_sources import rule_sources
from logitkit.languages.constraint import LanguageConstraint
from logitkit.languages.described import DescribedByLanguage
from logitkit.limits import DEFAULT_LIMITS
from logitkit.patterns.charset import CharSet
from logitkit.runtime.constraint import Constraint

__all__ = ["Refused", "sources_of"]

# As many options of a choice are listed.
LISTED = 5


class Refused(NamedTuple):
    """The place at which a text fails.

    Args:
        written: The bytes before it.
        refused: The bytes of the token from there on; empty for an end of text or a special token.
        characters: The characters that may come next.
        token_ids: The ids of the tokens before the one that is refused.
        following: The ids from the refused token on.
        is_end: Whether the refused token is an EOS.
    """

    written: bytes
    refused: bytes
    characters: CharSet
    token_ids: tuple[int, ...]
    following: tuple[int, ...]
    is_end: bool = False


def sources_of(constraint: Constraint, refused: Refused) -> tuple[Source, ...]:
    """Return the parts of the definition that describe what may come next, the most specific first."""
    return next((read(constraint, refused) for kind, read in READERS if isinstance(constraint, kind)), ())


def _of_pattern(constraint: Any, refused: Refused) -> tuple[Source, ...]:
    # Without the bytes that only begin a character.
    written = refused.written.decode("utf-8", "ignore")
    begun = refused.written[len(written.encode()) :]
    character = (begun + refused.refused).decode("utf-8", "ignore")[:1]
    found: tuple[Source, ...] = ()
    if character or (refused.is_end and not begun):
        found = assertion_sources(constraint.pattern, written, character, _viable)
    return found or pattern_sources(constraint.pattern, written, refused.characters)


def _viable(pattern: str, text: str, complete: bool) -> bool:
    """Whether a text matches a pattern, or, if it is not complete, is the beginning of one that does."""
    try:
        dfa = pattern_dfa(pattern, DEFAULT_LIMITS)
    except LogitkitError:
        return False
    state = dfa.run(text.encode())
    return bool(dfa.accepting[state]) if complete else state != DEAD


def _of_choice(constraint: Any, refused: Refused) -> tuple[Source, ...]:
    possible = [option for option in constraint.options if as_bytes(option).startswith(refused.written)]
    texts = [option if isinstance(option, str) else option.decode("utf-8", "replace") for option in possible[:LISTED]]
    return tuple(Source("text", text) for text in texts)


def _of_grammar(constraint: Any, refused: Refused) -> tuple[Source, ...]:
    written = refused.written.decode("utf-8", "ignore")
    return rule_sources(constraint.rule_set(), constraint.text, written, refused.characters)


def _of_schema(constraint: Any, refused: Refused) -> tuple[Source, ...]:
    return schema_reasons.sources_of(constraint, refused.written, refused.token_ids, refused.following)


def _of_prefix(constraint: Any, refused: Refused) -> tuple[Source, ...]:
    text = as_bytes(constraint.text)
    if not refused.written.startswith(text):
        return (Source("text", text.decode("utf-8", "replace")),)
    return () if constraint.then is None else _inside(constraint.then, refused, refused.written[len(text) :])


def _of_marker(constraint: Any, refused: Refused) -> tuple[Source, ...]:
    found = _of_schema(constraint, refused)
    if found or isinstance(constraint.marker, int):
        return found
    vocabulary, ids = constraint.vocabulary, refused.token_ids
    written = schema_reasons.with_names(vocabulary, ids) + refused.written[len(vocabulary.decode(ids)) :]
    before, marker, after = written.partition(as_bytes(constraint.marker))
    part = constraint.second if marker else constraint.first
    return () if part is None else _inside(part, refused, after if marker else before)


def _inside(part: Constraint, refused: Refused, written: bytes) -> tuple[Source, ...]:
    """Return the sources in a constraint on a part of the text, if they follow from the text alone."""
    return sources_of(part, refused._replace(written=written)) if isinstance(part, Regex | Choice) else ()


READERS: Sequence[tuple[type, Callable[[Any, Refused], tuple[Source, ...]]]] = (
    (Regex, _of_pattern),
    (Choice, _of_choice),
    (Grammar, _of_grammar),
    (JsonSchema, _of_schema),
    (LanguageConstraint, _of_schema),
    (DescribedByLanguage, _of_schema),
    (Then, _of_marker),
    (ForcedPrefix, _of_prefix),
)
