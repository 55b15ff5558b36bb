"""Languages of texts: fixed texts, patterns and special tokens."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from logitkit.compiler.characters.text_search import Search
from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import ConfigurationError
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.parameters.scalars import as_integer
from logitkit.patterns.charset import CharSet
from logitkit.patterns.parser import parse
from logitkit.patterns.syntax import Alternate, Characters, Machine, Node
from logitkit.vocabulary.marker import encoded

__all__ = [
    "LiteralText",
    "OneText",
    "RegexText",
    "SpecialToken",
    "as_language",
    "choice",
    "languages_of",
    "literal",
    "markers_of",
    "regex",
    "special",
]


@dataclass(frozen=True)
class LiteralText(Language):
    """One text; see `literal`."""

    text: str

    @property
    def texts(self) -> Iterator[str]:
        """The text."""
        yield self.text

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        return writer.text(self.text)


@dataclass(frozen=True)
class OneText(Language):
    """One of some texts; see `choice`."""

    options: tuple[str, ...]

    @property
    def texts(self) -> Iterator[str]:
        """The texts."""
        return iter(self.options)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        options = tuple(map(writer.text, self.options))
        return Alternate(options) if len(options) > 1 else options[0]


@dataclass(frozen=True)
class RegexText(Language):
    """The texts that match a pattern; see `regex`."""

    pattern: str
    exclude: tuple[str, ...] = ()

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        found = TextLanguage.of_pattern(self.pattern, writer.limits)
        if self.exclude:
            search = Search.of([[tuple(map(ord, text))] for text in self.exclude], (), writer.limits)
            without = Machine(search.moves, (True,) * len(search.moves))
            found &= TextLanguage.of_tree(without, writer.limits)
        return Characters(CharSet()) if found.is_empty else found.machine()


@dataclass(frozen=True)
class SpecialToken(Language):
    """One token by itself; see `special`."""

    token: str | int

    @property
    def special_tokens(self) -> Iterator[str | int]:
        """The token."""
        yield self.token

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        return writer.special_token(self.token)


def markers_of(name: str, given: object) -> tuple[str | SpecialToken, ...]:
    """Return an argument as markers.

    Args:
        name: The argument's name, for the error.
        given: None, a text, a special token, or several of these.

    Raises:
        ConfigurationError: It is something else, or a text is empty.
    """
    if given is None:
        return ()
    several = [given] if isinstance(given, str | SpecialToken) else given
    if not isinstance(several, Iterable):
        raise ConfigurationError(f"{name} is {given!r}; allowed are a text, special(...), or a list of these")
    found = []
    for marker in several:
        if not isinstance(marker, str | SpecialToken) or marker == "":
            raise ConfigurationError(f"{name} holds {marker!r}; allowed are texts that are not empty, and special(...)")
        if isinstance(marker, str):
            encoded(name, marker)
        found.append(marker)
    return tuple(found)


def literal(text: str) -> LiteralText:
    """Return the language of one text.

    Args:
        text: The text. Where it contains the name of a special token, that token is allowed as well as its spelling.

    Raises:
        ConfigurationError: It is not a str, or cannot be encoded as UTF-8.

    Example:
        >>> literal("hello")
        LiteralText(text='hello')
    """
    return LiteralText(_text("text", text))


def choice(options: Iterable[str]) -> OneText:
    """Return the language of some texts.

    Args:
        options: At least one text. Each may contain names of special tokens, as in `literal`.

    Raises:
        ConfigurationError: There are no options, or one is not a str.

    Example:
        >>> choice(["yes", "no"])
        OneText(options=('yes', 'no'))
    """
    if isinstance(options, str) or not isinstance(options, Iterable):
        raise ConfigurationError(f"options is {options!r}; allowed is a list of texts")
    found = tuple(_text(f"options[{i}]", option) for i, option in enumerate(options))
    if not found:
        raise ConfigurationError("options is empty; give at least one text")
    return OneText(found)


def regex(pattern: str, exclude: str | Iterable[str] = ()) -> RegexText:
    r"""Return the language of the texts that match a whole pattern, as in `re.fullmatch`.

    Args:
        pattern: A pattern in the syntax of Python's `re`.
        exclude: Texts that must not occur in a text, such as the closing tag after it.

    Raises:
        ConfigurationError: `pattern` is not a str, or `exclude` is not a list of texts.
        PatternSyntaxError: The pattern is not valid, or not regular; the message shows where.

    Example:
        >>> regex(r"\d+")
        RegexText(pattern='\\d+', exclude=())
    """
    if not isinstance(pattern, str):
        raise ConfigurationError(f"pattern is {pattern!r} of type {type(pattern).__name__}; allowed is str")
    parse(pattern)
    excluded = markers_of("exclude", exclude)
    if not all(isinstance(text, str) for text in excluded):
        raise ConfigurationError("exclude holds a special token, which never occurs in a text that matches a pattern")
    return RegexText(pattern, tuple(text for text in excluded if isinstance(text, str)))


def special(token: str | int) -> SpecialToken:
    """Return the language of one token, usually a special token; its name spelled in ordinary tokens does not count.

    In a language that names a token in this way, its own text, if it has one, is never part of other text. An EOS id that a
    language names ends only the texts that are complete with it; nothing follows it. If no other EOS id can end a complete text,
    all of them end it.

    Args:
        token: The name of a special token, such as `"<tool_call>"`, or a token id.

    Raises:
        ConfigurationError: It is neither.

    Example:
        >>> special("<tool_call>")
        SpecialToken(token='<tool_call>')
    """
    number = None if isinstance(token, str) else as_integer(token)
    if number is None and (not isinstance(token, str) or not token):
        raise ConfigurationError(f"token is {token!r}; allowed are the name of a special token and a token id")
    if isinstance(token, str):
        encoded("token", token)
    return SpecialToken(token if isinstance(token, str) else int(token))


def languages_of(name: str, given: Iterable[object]) -> tuple[Language, ...]:
    """Return arguments as languages: a str stands for the literal text."""
    return tuple(as_language(f"{name}[{i}]", part) for i, part in enumerate(given))


def as_language(name: str, given: object) -> Language:
    """Return an argument as a language: a str stands for the literal text.

    Raises:
        ConfigurationError: It is neither a language nor a str.
    """
    if isinstance(given, str):
        return literal(given)
    if not isinstance(given, Language):
        raise ConfigurationError(
            f"{name} is {given!r} of type {type(given).__name__}; allowed are languages of logitkit.languages, such as "
            "regex(...), and str, which means that text"
        )
    return given


def _text(name: str, given: object) -> str:
    if not isinstance(given, str):
        advice = ", and `either` for languages" if isinstance(given, Language) else ""
        raise ConfigurationError(f"{name} is {given!r} of type {type(given).__name__}; allowed is str{advice}")
    encoded(name, given)
    return given
