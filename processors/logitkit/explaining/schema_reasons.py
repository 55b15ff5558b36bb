"""Which parts of a schema, a language, tools or a structural tag refuse a byte."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from logitkit.constraints.json_schema import JsonSchema
from logitkit.constraints.then import Then
from logitkit.explaining.findings import Source
from logitkit.explaining.language_sources import language_sources
from logitkit.explaining.schema_sources import schema_sources
from logitkit.languages.combined import sequence
from logitkit.languages.constraint import LanguageConstraint
from logitkit.languages.described import DescribedByLanguage
from logitkit.languages.language import Language
from logitkit.runtime.constraint import Constraint
from logitkit.tools.formats import FORMATS
from logitkit.tools.tools_constraint import ToolsConstraint
from logitkit.tools.turn_language import arguments_language, marker
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["sources_of", "with_names"]


def sources_of(
    constraint: Constraint, written: bytes, token_ids: Sequence[int], following: Sequence[int]
) -> tuple[Source, ...]:
    """Return the parts of the definition of a constraint that refuse a text, the most specific first.

    Args:
        constraint: A `JsonSchema`, a language, tools or a structural tag, also after a marker.
        written: The bytes before the place at which the text fails.
        token_ids: The ids of the tokens before the one that is refused.
        following: The ids from the refused token on, as far as they are known.

    Returns:
        The parts; none for other constraints, and for texts that nest hundreds of levels deep.

    Example:
        >>> import logitkit as lk
        >>> vocabulary = lk.Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
        >>> constraint = lk.JsonSchema({"type": "array", "minItems": 2}, vocabulary)
        >>> sources_of(constraint, b"[1", b"[1", b"]")[0].pointer
        '/minItems'
    """
    vocabulary = constraint.vocabulary
    read = len(written) - len(vocabulary.decode(token_ids))
    named = with_names(vocabulary, token_ids)
    rest = with_names(vocabulary, takewhile(lambda token: token not in vocabulary.eos_ids, following))
    try:
        return _sources(constraint, named + rest[:read], rest[read:])
    except RecursionError:  # the text nests too deeply
        return ()


def _sources(constraint: Constraint | None, written: bytes, rest: bytes) -> tuple[Source, ...]:
    match constraint:
        case JsonSchema():
            return schema_sources(constraint.schema, written, rest, constraint.whitespace)
        case LanguageConstraint() | DescribedByLanguage():
            return language_sources(constraint.language, written, rest, constraint.vocabulary, _calls(constraint))
        case Then(first, second, str(marker)):
            before, found, after = written.partition(marker.encode())
            return _sources(second, after, rest) if found else _sources(first, before, rest)
    return ()


def with_names(vocabulary: Vocabulary, token_ids: Iterable[int]) -> bytes:
    """Return the text of some tokens, with special tokens by their names."""
    names = {token: name.encode() for name, token in vocabulary.special.items()}
    return b"".join(names.get(token) or vocabulary.tokens[token] or b"" for token in token_ids)


def _calls(constraint: Constraint) -> dict[Language, str]:
    """Return the name of each tool, by the part of the language that is its call."""
    if not isinstance(constraint, ToolsConstraint):
        return {}
    form = FORMATS[constraint.format] if isinstance(constraint.format, str) else constraint.format
    return {
        sequence(marker(form, tool.name + name_end), arguments_language(tool, form)): tool.name
        for tool in constraint.tools
        for _, name_end in form.heads
    }
