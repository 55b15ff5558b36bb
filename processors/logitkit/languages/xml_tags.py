"""The tags around the members of an object."""

from __future__ import annotations

from typing import NamedTuple

from logitkit.languages.raw_strings import RawStrings
from logitkit.languages.value_ends import ValueEnds

__all__ = ["RAW", "TYPES", "XmlTags"]

# The text before raw text, among those after a name; all others stand before JSON.
RAW = 0
# The types of values that are JSON, each with a word of its own in some tags.
TYPES = ("number", "boolean", "null", "object", "array")


class XmlTags(NamedTuple):
    """The texts around names and values.

    Args:
        begin: The begin tag as it was given, for errors.
        before_name: The text before a name.
        after_names: The text between a name and raw text, and between a name and JSON: one text, or one for each of `TYPES`.
        ends: The texts after a value.
        separator: The text between two members.
        free_of: Texts that occur in no string and no name of a member.
        raw_strings: Which strings may be raw text, as in `ToolFormat`.
        names: A pattern that the names of members must match. None: any name is allowed.
        cdata: Texts that occur in raw text only within a CDATA section, as in `ToolFormat`.
        escapes: Characters of the names in the schema, and how each is written. Other names do not have these characters.
    """

    begin: str
    before_name: str
    after_names: tuple[str, ...]
    ends: ValueEnds
    separator: str
    free_of: tuple[str, ...] = ()
    raw_strings: RawStrings = "any"
    names: str | None = None
    cdata: tuple[str, ...] = ()
    escapes: tuple[tuple[str, str], ...] = ()

    def written(self, name: str) -> str:
        """Return how a name is written."""
        return name.translate({ord(character): written for character, written in self.escapes})

    @property
    def tells_kinds(self) -> bool:
        """Whether tags say which kind of value follows."""
        return len({*self.after_names}) > 1

    @property
    def types_after(self) -> dict[str, tuple[str, ...]]:
        """The types of values that are JSON, by the text between a name and them."""
        if len(self.after_names) == 2:
            return {self.after_names[1]: TYPES}
        texts = self.after_names[1:]
        return {text: tuple(kind for kind, own in zip(TYPES, texts, strict=True) if own == text) for text in texts}
