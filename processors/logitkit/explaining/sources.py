"""Where what may come next stands in the definition of a constraint."""

from __future__ import annotations

from typing import NamedTuple

from logitkit.constraints.choice import Choice
from logitkit.constraints.forced_prefix import ForcedPrefix
from logitkit.constraints.grammar import Grammar
from logitkit.constraints.json_schema import JsonSchema
from logitkit.constraints.regex import Regex
from logitkit.constraints.texts import as_bytes
from logitkit.constraints.then import Then
from logitkit.explaining.findings import Source
from logitkit.explaining.language_sources import language_sources
from logitkit.explaining.pattern_sources import assertion_sources, pattern_sources
from logitkit.explaining.rule_sources import rule_sources
from logitkit.explaining.schema_sources import schema_sources
from logitkit.languages.constraint import LanguageConstraint
from logitkit.languages.described import DescribedByLanguage
from logitkit.languages.language import Language
from logitkit.patterns.charset import CharSet
from logitkit.runtime.constraint import Constraint
from logitkit.tools.call_language import named_call
from logitkit.tools.formats import TOOL_FORMATS
from logitkit.tools.tools_constraint import ToolsConstraint

__all__ = ["Refused", "sources_of"]

# As many options of a choice are listed.
LISTED = 5


class Refused(NamedTuple):
    """The place at which a text fails. Special tokens stand in it by their names.

    Args:
        written: The bytes before it.
        rest: The bytes from there on, as far as they are known; empty for an end of text.
        characters: The characters that may come next.
        refused: The bytes of the refused token from there on; None for an end of text, empty for a special token.
    """

    written: bytes
    rest: bytes
    characters: CharSet = CharSet()
    refused: bytes | None = b""


def sources_of(constraint: Constraint, place: Refused) -> tuple[Source, ...]:
    """Return the parts of the definition of a constraint that refuse a text, the most specific first.

    Args:
        constraint: The constraint.
        place: The place at which the text fails.

    Returns:
        The parts; none for constraints without a definition in text, and for texts that nest hundreds of levels deep.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
        >>> constraint = lk.JsonSchema({"type": "array", "minItems": 2}, vocabulary)
        >>> sources_of(constraint, Refused(b"[1", b"]"))[0].pointer
        '/minItems'
    """
    try:
        return _sources(constraint, place)
    except RecursionError:  # the text nests too deeply
        return ()


def _sources(constraint: Constraint | None, place: Refused) -> tuple[Source, ...]:
    written, rest, characters, _ = place
    match constraint:
        case Regex(pattern):
            return _of_pattern(pattern, place)
        case Choice(options):
            possible = [text for text in map(as_bytes, options) if text.startswith(written)]
            return tuple(_text(text) for text in possible[:LISTED])
        case Grammar(text):
            return rule_sources(
                constraint.rule_set().without_limits(), text, written.decode("utf-8", "ignore"), characters
            )
        case JsonSchema():
            return schema_sources(constraint.schema, written, rest, constraint.whitespace, constraint.resources)  # type: ignore[arg-type]
        case LanguageConstraint() | DescribedByLanguage():
            return language_sources(constraint.language, written, rest, constraint.vocabulary, _calls(constraint))
        case Then(first, second, str() | bytes() as text):
            _, found, after = written.partition(as_bytes(text))
            if found:
                return _sources(second, place._replace(written=after))
            return _sources(first, place) or (_text(as_bytes(text)),)
        case ForcedPrefix(text, _, then):
            prefix = as_bytes(text)
            inside = written.startswith(prefix)
            return _sources(then, place._replace(written=written[len(prefix) :])) if inside else (_text(prefix),)
    return ()


def _of_pattern(pattern: str, place: Refused) -> tuple[Source, ...]:
    # Without the bytes that only begin a character.
    written = place.written.decode("utf-8", "ignore")
    begun = place.written[len(written.encode()) :]
    character = (begun + (place.refused or b"")).decode("utf-8", "ignore")[:1]
    found: tuple[Source, ...] = ()
    if character or (place.refused is None and not begun):
        found = assertion_sources(pattern, written, character)
    return found or pattern_sources(pattern, written, place.characters)


def _text(text: bytes) -> Source:
    return Source("text", text.decode("utf-8", "replace"))


def _calls(constraint: Constraint) -> dict[Language, str]:
    """Return the name of each tool, by the part of the language that is its call."""
    if not isinstance(constraint, ToolsConstraint):
        return {}
    form = TOOL_FORMATS[constraint.format] if isinstance(constraint.format, str) else constraint.format
    return {named_call(tool, form, name_end): tool.name for tool in constraint.tools for _, name_end in form.heads}
