r"""The arguments of a call as Python writes them, with names: `city="Berlin", days=3`.

Strings are written as in JSON, between double quotes, and all other values too, or with `True`, `False` and `None`. The schema is
read as for JSON, so the order of members, which of them must be there, and how many may be, are the same.

Gemma 4 writes the same with other punctuation, `city:<|"|>Berlin<|"|>,days:3`: strings stand as they are between two special
tokens, names in objects have no quotes, and members are sorted by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.compile import Compiled
from logitkit.json_schema.conjunction import Conjunction
from logitkit.json_schema.delimited_strings import DelimitedStrings, ends_bare_names
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import (
    JSON_LITERALS,
    NONE_LITERALS,
    PYTHON_LITERALS,
    Layout,
    MemberOrder,
    Whitespace,
)
from logitkit.json_schema.plan import Names
from logitkit.json_schema.pointer import below
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.json_schema.writer import nested_grammar_of
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.raw_strings import names_matching
from logitkit.languages.value_ends import ValueEnds
from logitkit.languages.xml_members import XmlMembers
from logitkit.languages.xml_tags import XmlTags
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Machine, Node

__all__ = ["Delimited", "KeywordArguments", "ValueLiterals"]

ValueLiterals: TypeAlias = Literal["json", "python", "none"]

_LETTERS = CharSet.from_string("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_IN_NAMES = _LETTERS | CharSet.from_string("0123456789")
_LITERALS: Mapping[ValueLiterals, tuple[str, str, str]] = {
    "json": JSON_LITERALS,
    "python": PYTHON_LITERALS,
    "none": NONE_LITERALS,
}


@dataclass(frozen=True)
class Delimited:
    """Strings between two copies of a delimiter, which they do not contain.

    Args:
        delimiter: The delimiter.
        is_token: Whether it counts only as a special token, not when it is spelled in ordinary tokens.
        bare_names: Whether names of members in objects have no quotes. Those of arguments are written in the same way if the text
            after them shows where they end, as `:` does; otherwise, as before `=`, they are names of Python.
        names: A pattern that such names match as a whole; None: all names that can be read.
    """

    delimiter: str
    is_token: bool = False
    bare_names: bool = False
    names: str | None = None


@dataclass(frozen=True)
class KeywordArguments(Language):
    """The members of an object as arguments with names.

    Args:
        schema: The schema of the object.
        begin: The text before a value, with `{name}`, such as `{name}=`.
        separator: The text between two members.
        whitespace: The white space in values, as in `JsonSchema`.
        literals: How true, false and null are written, also inside of arrays and objects; `"none"`: as in JSON, but for `None`.
        free_of: Texts that occur in no string and no name of a member.
        strings: How strings are written.
        delimited: The delimiter of strings, which then have no escapes.
        member_order: In which order members come, also inside of objects.

    Example:
        >>> arguments = KeywordArguments(
        ...     {"type": "object", "properties": {"city": {"type": "string"}}}, "{name}=", ", "
        ... )
        >>> list(arguments.texts)
        ['', '=', ', ']
    """

    schema: Any = field(compare=False)
    begin: str
    separator: str
    whitespace: Whitespace = "spaced"
    literals: ValueLiterals = "json"
    free_of: tuple[str, ...] = ()
    strings: StringSpelling = "json"
    delimited: Delimited | None = None
    member_order: MemberOrder = "schema"
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", load(self.schema))
        object.__setattr__(self, "content", key_of(self.schema))

    @property
    def texts(self) -> Iterator[str]:
        """The texts around names and values, in which names of special tokens may stand."""
        yield from (*self.begin.split("{name}"), self.separator)
        if self.delimited is not None and not self.delimited.is_token:
            yield self.delimited.delimiter

    @property
    def special_tokens(self) -> Iterator[str | int]:
        """The delimiter, if it counts only as a special token."""
        if self.delimited is not None and self.delimited.is_token:
            yield self.delimited.delimiter

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly, or a name is not one of Python, or needs quotes.
            ConfigurationError: No object satisfies the schema.
        """
        before, after = self.begin.split("{name}")
        # The members end where the call ends.
        free_of, strings = self.free_of, self._spelling(writer)
        if self.delimited is not None:
            free_of = (*free_of, self.delimited.delimiter)
        tags = XmlTags(self.begin, before, (after, after), ValueEnds(("",)), self.separator, free_of)
        literals = _LITERALS[self.literals]
        layout = Layout(self.whitespace, literals=literals, strings=strings, member_order=self.member_order)
        # Where a delimiter is a special token, its number depends on the whole language.
        key = (self, strings) if isinstance(strings, DelimitedStrings) else self
        return _KeywordMembers(self.schema, tags, key, layout, writer, "json").tree()

    def _spelling(self, writer: LanguageWriter) -> StringSpelling | DelimitedStrings:
        if self.delimited is None:
            return self.strings
        text = self.delimited.delimiter
        node = writer.special_token(text) if self.delimited.is_token else writer.text(text)
        pattern = self.delimited.names
        return DelimitedStrings(node, self.delimited.bare_names, None if pattern is None else names_matching(pattern))


class _KeywordMembers(XmlMembers):
    """Writes members whose values are all quoted."""

    def _name(self, names: Names | str | None) -> Node | None:
        strings = self.layout.strings
        among = None
        if isinstance(strings, DelimitedStrings) and strings.bare_names:
            if ends_bare_names(self.tags.after_names[0]):
                if isinstance(names, Names):
                    return strings.names(names.exact().language)
                return strings.name(str(json.loads(names or '""')))
            among = strings.names_of
        if isinstance(names, Names):
            named = names.exact().language & _identifiers(self.writer.limits)
            named = named if among is None else named & among
            return None if named.is_empty else named.machine()
        found = super()._name(names)
        name = str(json.loads(names or '""'))
        if not name.isascii() or not name.isidentifier() or (among is not None and not among.contains(name)):
            raise UnsupportedSchema(
                f"the name {name!r} cannot stand before {self.tags.after_names[0]!r}: it is not a name of Python"
                f"{'' if among is None else ' that parameter_names allows'}; use another name, or arguments as JSON",
                below("#", "properties", name),
                None,
            )
        return found

    def _any_kind(self, value: Conjunction) -> Node | None:
        options, limits = self.writer.options, self.writer.limits
        layout = self.layout_of_values(options.longest > 0, options.closing)
        grammar = nested_grammar_of(
            value, self.reader, layout, options.fragments, options.longest, called_root=options.called
        )
        if grammar is None:
            return None
        key = ("keyword", self.key, limits, options, value)
        return concatenate(
            [self.writer.text(self.tags.after_names[0]), self.writer.value(key, Compiled(grammar, (), ()))]
        )


def _identifiers(limits: Limits) -> TextLanguage:
    """Return the names that Python allows, of ASCII letters, digits and underscores."""
    return TextLanguage.of_tree(Machine((((_LETTERS, 1),), ((_IN_NAMES, 1),)), (False, True)), limits)
