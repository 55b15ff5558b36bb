"""The language of one token, whatever its text is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logitkit.errors import ConfigurationError
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.texts import SpecialToken, markers_of
from logitkit.patterns.syntax import Node

__all__ = ["AnyToken", "any_token"]


@dataclass(frozen=True)
class AnyToken(Language):
    """One token; see `any_token`."""

    exclude: tuple[SpecialToken, ...] = ()

    @property
    def special_tokens(self) -> Iterator[str | int]:
        """The tokens that it is not."""
        return (token.token for token in self.exclude)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        return writer.any_token(self.special_tokens)


def any_token(exclude: SpecialToken | Iterable[SpecialToken] = ()) -> AnyToken:
    """Return the language of exactly one token, whatever its text is: even a part of a character, or a special token.

    It is always a whole token, and never EOS. A language in which other text may begin at the same point is refused when it is
    compiled; a special token may.

    Args:
        exclude: Tokens that are not allowed, as `special(...)`.

    Raises:
        ConfigurationError: `exclude` holds something else.

    Example:
        >>> from logitkit.languages import repeat, sequence, special
        >>> few_tokens = repeat(any_token(exclude=special("</think>")), most=100)
        >>> sequence(special("<think>"), few_tokens, special("</think>")).parts[1].item
        AnyToken(exclude=(SpecialToken(token='</think>'),))
    """
    excluded = markers_of("exclude", exclude)
    for token in excluded:
        if isinstance(token, str):
            raise ConfigurationError(f"exclude holds {token!r}; allowed are tokens, such as special({token!r})")
    return AnyToken(tuple([token for token in excluded if isinstance(token, SpecialToken)]))
