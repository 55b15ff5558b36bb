r"""The arguments of a call as Python writes them, with names: `city="Berlin", days=3`.

Strings are written as in JSON, between double quotes, and all other values too, or with `True`, `False` and `None`. The schema is
read as for JSON, so the order of members, which of them must be there, and how many may be, are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.compile import Compiled
from logitkit.json_schema.conjunction import Conjunction
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import JSON_LITERALS, PYTHON_LITERALS, Layout, Whitespace
from logitkit.json_schema.plan import Names
from logitkit.json_schema.pointer import below
from logitkit.json_schema.string_spellings import StringSpelling
from logitkit.json_schema.writer import nested_grammar_of
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.value_ends import ValueEnds
from logitkit.languages.xml_arguments import Literals
from logitkit.languages.xml_members import XmlMembers
from logitkit.languages.xml_tags import XmlTags
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Machine, Node

__all__ = ["KeywordArguments"]

_LETTERS = CharSet.from_string("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_IN_NAMES = _LETTERS | CharSet.from_string("0123456789")


@dataclass(frozen=True)
class KeywordArguments(Language):
    """The members of an object as arguments with names.

    Args:
        schema: The schema of the object.
        begin: The text before a value, with `{name}`, such as `{name}=`.
        separator: The text between two members.
        whitespace: The white space in values, as in `JsonSchema`.
        literals: How true, false and null are written, also inside of arrays and objects.
        free_of: Texts that occur in no string and no name of a member.
        strings: How strings are written.

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
    literals: Literals = "json"
    free_of: tuple[str, ...] = ()
    strings: StringSpelling = "json"
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", load(self.schema))
        object.__setattr__(self, "content", key_of(self.schema))

    @property
    def texts(self) -> Iterator[str]:
        """The texts around names and values, in which names of special tokens may stand."""
        yield from (*self.begin.split("{name}"), self.separator)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly, or a name is not one of Python.
            ConfigurationError: No object satisfies the schema.
        """
        before, after = self.begin.split("{name}")
        # The members end where the call ends.
        tags = XmlTags(self.begin, before, (after, after), ValueEnds(("",)), self.separator, self.free_of)
        literals = PYTHON_LITERALS if self.literals == "python" else JSON_LITERALS
        layout = Layout(self.whitespace, literals=literals, strings=self.strings)
        return _KeywordMembers(self.schema, tags, self, layout, writer, self.literals).tree()


class _KeywordMembers(XmlMembers):
    """Writes members whose values are all quoted."""

    def _name(self, names: Names | str | None) -> Node | None:
        if isinstance(names, Names):
            named = names.exact().language & _identifiers(self.writer.limits)
            return None if named.is_empty else named.machine()
        found = super()._name(names)
        name = str(json.loads(names or '""'))
        if not name.isascii() or not name.isidentifier():
            raise UnsupportedSchema(
                f"the name {name!r} cannot stand before {self.tags.after_names[0]!r}: it is not a name of Python; use another "
                "name, or arguments as JSON",
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
