r"""The arguments of a call between tags, as Qwen-Coder writes them: strings are raw text, all other values are JSON.

    <parameter=city>
    Berlin
    </parameter>
    <parameter=days>
    3
    </parameter>

The schema is read as for JSON, so the order of members, which of them must be there, and how many may be, are the same. A string
is its own text, in which the closing marker does not occur; `pattern`, `maxLength` and the like hold exactly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args

from logitkit.errors import ConfigurationError
from logitkit.json_schema.document import key_of, load
from logitkit.json_schema.layout import Layout, Whitespace
from logitkit.languages.language import Language
from logitkit.languages.language_writer import LanguageWriter
from logitkit.languages.value_ends import ValueEnds
from logitkit.languages.xml_members import XmlMembers, XmlTags
from logitkit.patterns.syntax import Node
from logitkit.vocabulary.marker import encoded

__all__ = ["XmlArguments", "xml_arguments"]

NAME, KIND = "{name}", "{kind}"


@dataclass(frozen=True)
class XmlArguments(Language):
    """The members of an object between tags; see `xml_arguments`."""

    schema: Any = field(compare=False)
    begin: str
    end: str
    separator: str
    whitespace: Whitespace = "compact"
    kinds: tuple[str, str] | None = None
    any_order: bool = False
    end_also: str | None = None
    content: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", load(self.schema))
        object.__setattr__(self, "content", key_of(self.schema))

    @property
    def closing(self) -> str:
        """The closing marker, which does not occur in raw text: the end tag without white space around it."""
        return self.ends.marker

    @property
    def ends(self) -> ValueEnds:
        """The texts after a value."""
        return ValueEnds.of(self.end, self.end_also)

    @property
    def texts(self) -> Iterator[str]:
        """The texts of the tags, in which names of special tokens may stand."""
        yield from (self.tags.before_name, *self.tags.after_names, *self.ends.texts, self.separator)

    @property
    def tags(self) -> XmlTags:
        """The texts around names and values."""
        before, after = self.begin.split(NAME)
        raw, other = self.kinds or (KIND, KIND)
        afters = after.replace(KIND, raw), after.replace(KIND, other)
        return XmlTags(self.begin, before, afters, self.ends, self.separator)

    def tree(self, writer: LanguageWriter) -> Node:
        """Return the syntax tree.

        Raises:
            UnsupportedSchema: A keyword cannot be enforced exactly, or a name cannot stand in a tag.
            ConfigurationError: No object satisfies the schema.
        """
        return XmlMembers(self.schema, self.tags, self, Layout(self.whitespace, self.any_order), writer).tree()


def xml_arguments(
    schema: object,
    *,
    begin: str = "<parameter={name}>\n",
    end: str = "\n</parameter>",
    separator: str = "\n",
    whitespace: Whitespace = "compact",
    kinds: tuple[str, str] | None = None,
    any_order: bool = False,
    end_also: str | None = None,
) -> XmlArguments:
    r"""Return the language of the members of an object between XML tags, as Qwen-Coder writes the arguments of a call.

    The members come in the order of the schema, unless `any_order` is given. A string is written as raw text, so it cannot
    contain the closing marker, which is `end` without the white space around it. All other values are JSON. If a member may be
    a string or something else, both are allowed.

    Args:
        schema: The schema of the object, as in `JsonSchema`.
        begin: The text before a value; it contains `{name}` once.
        end: The text after a value.
        separator: The text between two members.
        whitespace: The white space in values that are JSON, as in `JsonSchema`.
        kinds: The words that stand for `{kind}` in `begin`: before raw text, and before JSON, such as `("true", "false")` for
            `string="{kind}"`. None: `{kind}` has no meaning.
        any_order: Whether members may come in any order, as in `json_schema`.
        end_also: Another text that may follow a value: the marker of `end` after other white space, such as `"</parameter>"`.
            As much white space before the marker belongs to the end as one of both ends has. So a string that ends with a line
            feed is only followed by the end that begins with one.

    Raises:
        ConfigurationError: An argument is not allowed.

    Example:
        >>> xml_arguments({"type": "object", "properties": {"city": {"type": "string"}}}).closing
        '</parameter>'
    """
    for argument, given in (("begin", begin), ("separator", separator)):
        if not isinstance(given, str):
            raise ConfigurationError(f"{argument} is {given!r} of type {type(given).__name__}; allowed is str")
        encoded(argument, given)
    if begin.count(NAME) != 1 or begin.endswith(NAME):
        raise ConfigurationError(
            f"begin is {begin!r}; allowed is a text that has {NAME!r} once, and continues after it"
        )
    ValueEnds.of(end, end_also).check("end")
    _check_kinds(begin, kinds)
    if whitespace not in get_args(Whitespace):
        raise ConfigurationError(
            f"whitespace is {whitespace!r}; allowed are {', '.join(map(repr, get_args(Whitespace)))}"
        )
    if not isinstance(any_order, bool):
        raise ConfigurationError(f"any_order is {any_order!r}; allowed are True and False")
    return XmlArguments(schema, begin, end, separator, whitespace, kinds, any_order, end_also)


def _check_kinds(begin: str, kinds: object) -> None:
    if kinds is None:
        return
    given = kinds if isinstance(kinds, tuple) else ()
    words = [word for word in given if isinstance(word, str) and word]
    if not len(words) == len(given) == 2 or any(a.startswith(b) for a, b in (words, words[::-1])):
        raise ConfigurationError(
            f"kinds is {kinds!r}; allowed are None and a tuple of two texts, of which neither begins the other"
        )
    for word in words:
        encoded("kinds", word)
    before, _, after = begin.partition(NAME)
    if KIND in before or after.count(KIND) != 1 or after.startswith(KIND) or after.endswith(KIND):
        raise ConfigurationError(
            f"begin is {begin!r}; with kinds, it has {KIND!r} once, between other texts after the name"
        )
