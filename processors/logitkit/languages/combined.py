"""Languages built from others: one after another, one of several, repetition, and tags."""

from __future__ import annotations

from dataclasses import dataclass, replace

from logitkit.compiler.nested_grammars.parts import has_calls
from logitkit.errors import ConfigurationError
from logitkit.languages.free_text import AnyText
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.texts import LiteralText, SpecialToken, as_language, languages_of
from logitkit.parameters.scalars import as_integer
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Alternate, Empty, Node, Repeat

__all__ = ["InOrder", "OneOf", "Repeated", "either", "optional", "repeat", "sequence", "tag"]

# From this many options on, the texts that they begin with are words.
MANY_OPTIONS = 4


@dataclass(frozen=True)
class InOrder(Language):
    """Languages one after another; see `sequence`."""

    items: tuple[Language, ...]

    @property
    def parts(self) -> tuple[Language, ...]:
        """The languages that it is built from."""
        return self.items

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        return concatenate([part.tree(writer) for part in self.items])


@dataclass(frozen=True)
class OneOf(Language):
    """One of several languages; see `either`."""

    options: tuple[Language, ...]

    @property
    def parts(self) -> tuple[Language, ...]:
        """The languages that it is built from."""
        return self.options

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        items = [option.items for option in self.options if isinstance(option, InOrder) and option.items]
        begins = [begin for begin, *_ in items if isinstance(begin, LiteralText)]
        if not MANY_OPTIONS <= len(begins) == len(self.options):
            trees = tuple([option.tree(writer) for option in self.options])
            return Alternate(trees) if len(trees) > 1 else trees[0]
        # Such as the calls of many tools. Their names would be most of the tree, and are read in one step each.
        rests = [concatenate([part.tree(writer) for part in after]) for _, *after in items]
        found = writer.words([begin.text for begin in begins]) if all(map(has_calls, rests)) else None
        common, words = found or (Empty(), [begin.tree(writer) for begin in begins])
        return concatenate([common, Alternate(tuple(map(concatenate, map(list, zip(words, rests, strict=True)))))])


@dataclass(frozen=True)
class Repeated(Language):
    """A language several times; see `repeat`."""

    item: Language
    least: int = 0
    most: int | None = None
    separator: Language | None = None

    @property
    def parts(self) -> tuple[Language, ...]:
        """The languages that it is built from."""
        return (self.item,) if self.separator is None else (self.item, self.separator)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree."""
        item = self.item.tree(writer)
        if self.most == 0:
            return Empty()
        if self.separator is None:
            return Repeat(item, self.least, self.most)
        later = concatenate([self.separator.tree(writer), item])
        following = Repeat(later, max(self.least - 1, 0), None if self.most is None else self.most - 1)
        several = concatenate([item, Empty() if self.most == 1 else following])
        return several if self.least else Alternate((Empty(), several))


def sequence(*parts: Language | str) -> Language:
    """Return the language of texts of some languages, one after another.

    A text may be split in any way: `sequence(regex("a*"), regex("ab"))` has the text `aab`. Without parts, it is the empty text.

    Args:
        parts: Languages; a str means that text.

    Raises:
        ConfigurationError: A part is neither.

    Example:
        >>> from logitkit.languages import regex
        >>> sequence("Answer: ", regex("yes|no"))
        InOrder(items=(LiteralText(text='Answer: '), RegexText(pattern='yes|no', exclude=())))
    """
    found = languages_of("parts", parts)
    return found[0] if len(found) == 1 else InOrder(found)


def either(*options: Language | str) -> Language:
    """Return the language of the texts that belong to one of several languages, or to more.

    Args:
        options: At least one language; a str means that text.

    Raises:
        ConfigurationError: There are no options, or one is not a language.

    Example:
        >>> from logitkit.languages import json_schema
        >>> either(json_schema({"type": "integer"}), "unknown").parts[1]
        LiteralText(text='unknown')
    """
    found = languages_of("options", options)
    if not found:
        raise ConfigurationError("options is empty; give at least one language")
    return found[0] if len(found) == 1 else OneOf(found)


def optional(item: Language | str) -> Language:
    """Return the language of the texts of a language, and of the empty text.

    Args:
        item: The language; a str means that text.

    Raises:
        ConfigurationError: It is not a language.

    Example:
        >>> optional("please").most
        1
    """
    return repeat(item, 0, 1)


def repeat(
    item: Language | str, least: int = 0, most: int | None = None, separator: Language | str | None = None
) -> Repeated:
    """Return the language of several texts of a language, one after another.

    Args:
        item: The language; a str means that text.
        least: The minimum number of texts.
        most: The maximum number of texts; None: there is no maximum.
        separator: The text or language between two of them; None: nothing.

    Raises:
        ConfigurationError: `least` or `most` is not such a number, or `item` or `separator` is not a language.

    Example:
        >>> from logitkit.languages import regex
        >>> repeat(regex("[a-z]+"), 1, separator=", ").least
        1
    """
    lowest = as_integer(least)
    highest = None if most is None else as_integer(most)
    if lowest is None or lowest < 0:
        raise ConfigurationError(f"least is {least!r}; allowed are integers from 0")
    if most is not None and (highest is None or highest < lowest):
        raise ConfigurationError(f"most is {most!r}; allowed are None and integers from {lowest}, which is 'least'")
    between = None if separator is None else as_language("separator", separator)
    if highest is not None and highest < 2:
        # Nothing stands between texts, so that a special token that would is not named either.
        between = None
    return Repeated(as_language("item", item), lowest, highest, between)


def tag(begin: Language | str, content: Language | str, end: Language | str) -> Language:
    """Return the language of a text between two markers, such as `<tool_call>` and `</tool_call>`.

    This is `sequence(begin, content, end)`, but `any_text()` as content stops at the first `end`. If the content is a pattern
    that could contain `end`, write `regex(pattern, exclude=end)`. JSON ends with its last bracket, whatever its strings
    contain.

    Args:
        begin: The opening marker; a str means that text.
        content: The language between the markers.
        end: The closing marker; a str means that text.

    Raises:
        ConfigurationError: An argument is not a language.

    Example:
        >>> from logitkit.languages import any_text
        >>> tag("<b>", any_text(), "</b>").parts[1]
        AnyText(until=('</b>',), exclude=(), max_tokens=None)
    """
    inside = as_language("content", content)
    if isinstance(inside, AnyText) and not inside.until:
        marker = end.text if isinstance(end, LiteralText) else end
        if isinstance(marker, str | SpecialToken) and marker:
            return sequence(begin, replace(inside, until=(marker,)))
    return sequence(begin, inside, end)
