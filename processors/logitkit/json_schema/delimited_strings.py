r"""Strings that stand as they are between two copies of a delimiter, as Gemma 4 writes them.

    {city:<|"|>Bonn<|"|>,tags:[<|"|>a "b"<|"|>],days:2}

There are no escapes, so no string contains the delimiter. The names of members may have no quotes; then they contain nothing
that could end them or that another parser could take for something else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from logitkit.compiler.text_language import TextLanguage
from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.pointer import below
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters, Machine, Node

__all__ = ["BARE_NAME", "DelimitedStrings", "ends_bare_names", "is_bare_name"]

# The characters that a name without quotes lacks: control characters, white space, surrogates, brackets and the like.
_RANGES = (
    *((0x00, 0x20), (0x7F, 0xA0), (0xAD, 0xAD), (0x1680, 0x1680), (0x2000, 0x200F), (0x2028, 0x202F), (0x205F, 0x2064)),
    *((0x3000, 0x3000), (0xD800, 0xDFFF), (0xFEFF, 0xFEFF)),
)
_PUNCTUATION = "{}[],:\"'`<>|\\"
_IN_NAMES = ~(CharSet.of(_RANGES) | CharSet.from_string(_PUNCTUATION))
BARE_NAME = re.compile("[^" + "".join(f"\\u{a:04x}-\\u{b:04x}" for a, b in _RANGES) + re.escape(_PUNCTUATION) + "]*")


def is_bare_name(name: str) -> bool:
    """Whether a name of a member can be written without quotes.

    Example:
        >>> is_bare_name("größe-2"), is_bare_name("a b"), is_bare_name("")
        (True, False, False)
    """
    found = BARE_NAME.fullmatch(name)
    return found is not None and name != ""


def ends_bare_names(text: str) -> bool:
    """Whether a text shows where a name without quotes ends, because no such name has its first character.

    Example:
        >>> ends_bare_names(":"), ends_bare_names("=")
        (True, False)
    """
    return not is_bare_name(text[:1])


@dataclass(frozen=True)
class DelimitedStrings:
    """How strings and names are written.

    Args:
        delimiter: The tree of the text before and after a string. Strings are without this text: the reader of the schema has it
            among the texts that occur in no string.
        bare_names: Whether names of members have no quotes; if not, they are written as strings are.
        names_of: The names that may stand without quotes; None: all that can be read.
    """

    delimiter: Node
    bare_names: bool
    names_of: TextLanguage | None = None

    def string(self, text: str) -> Node:
        """Return the tree of one string."""
        return concatenate([self.delimiter, *_spelled(text), self.delimiter])

    def strings(self, language: TextLanguage) -> Node:
        """Return the tree of some strings."""
        return concatenate([self.delimiter, language.machine(), self.delimiter])

    def name(self, text: str) -> Node:
        """Return the tree of one name.

        Raises:
            UnsupportedSchema: It cannot be written without quotes.
        """
        if not self.bare_names:
            return self.string(text)
        if not is_bare_name(text) or not (self.names_of is None or self.names_of.contains(text)):
            raise UnsupportedSchema(
                f"the name {text!r} cannot be written without quotes: it is empty, or contains white space, a bracket, a quote, "
                f"one of {',:<>|'!r} or what this format does not allow in names; use another name",
                below("#", "properties", text),
                None,
            )
        return concatenate(_spelled(text))

    def names(self, language: TextLanguage) -> Node:
        """Return the tree of some names.

        Raises:
            UnsupportedSchema: None of them can be written without quotes.
        """
        if not self.bare_names:
            return self.strings(language)
        found = language & _bare_names(language.limits)
        found = found if self.names_of is None else found & self.names_of
        if found.is_empty:
            raise UnsupportedSchema(
                "no name that 'patternProperties' or 'propertyNames' allows can be written without quotes; use other names",
                None,
                None,
            )
        return found.machine()


def _spelled(text: str) -> list[Node]:
    return [Characters(CharSet.single(ord(character))) for character in text]


@lru_cache(maxsize=8)
def _bare_names(limits: Limits) -> TextLanguage:
    return TextLanguage.of_tree(Machine((((_IN_NAMES, 1),), ((_IN_NAMES, 1),)), (False, True)), limits)
